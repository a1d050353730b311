// The cold run: the same prompt on a fake runtime of its own, without engine, cache or faults.
// Chunks end on the grid; generated tokens are evaluated one by one. Answers are remembered, for
// repeats.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/fake/fake_runtime.h"
#include "skippy/types.h"

namespace skippy::sim {

struct ColdRequest {
  std::vector<Token> prompt;
  std::vector<std::pair<std::uint32_t, float>> adapters;
  std::uint64_t sampler_seed = 0;  // 0: greedy
  std::uint32_t max_tokens = 0;
};

struct ColdAnswer {
  std::vector<Token> tokens;
  std::vector<std::vector<float>> logits;  // each token's
};

class ColdOracle {
 public:
  explicit ColdOracle(const runtime::fake::FakeOptions& options);
  // Valid until the next call.
  const ColdAnswer& Answer(const ColdRequest& request);

 private:
  ColdAnswer Compute(const ColdRequest& request) const;

  runtime::fake::FakeOptions options_;
  std::map<std::tuple<std::vector<Token>, std::vector<std::pair<std::uint32_t, float>>,
                      std::uint64_t, std::uint32_t>,
           ColdAnswer>
      known_;
};

}  // namespace skippy::sim
