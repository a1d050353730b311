// Holds a chain of stages against the whole model, logit by logit.
//
// Threads: single-threaded. Errors: those of loading. Cost: the whole model in memory beside its
// stages, and `prompt` + `steps` tokens through both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/runtime_options.h"
#include "skippy/result.h"
#include "skippy/types.h"

namespace skippy::stage {

struct CheckOptions {
  Pos prompt = 150;  // tokens, drawn evenly from the vocabulary; not a multiple of the chunk
  Pos steps = 16;    // greedy tokens behind it
  runtime::RuntimeOptions runtime = {.context = 512, .chunk = 64, .threads = 1};
};

struct CheckResult {
  std::uint32_t compared = 0;  // rows of logits
  std::uint32_t equal = 0;     // bit by bit
  double largest_difference = 0;
  Pos first_difference = 0;  // position, where not all are equal
  bool Passed() const { return compared > 0 && equal == compared; }
};

Result<CheckResult> CheckStages(const std::string& model, const std::string& vocabulary,
                                const std::vector<std::string>& stages,
                                const CheckOptions& options);

}  // namespace skippy::stage
