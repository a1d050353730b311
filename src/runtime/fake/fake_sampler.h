// Samplers for tests. Both look only at the whole part of logits, so they agree with a cold run
// even where low bits differ (FakeOptions::shape_noise).
#pragma once

#include <cstdint>

#include "runtime/runtime.h"

namespace skippy::runtime::fake {

class GreedySampler final : public Sampler {
 public:
  Result<Token> Sample(std::span<const float> logits) override;
  void Accept(Token) override {}
};

// Draws by a hash of seed, step and logits: as sensitive to the logits as to the seed.
class SeededSampler final : public Sampler {
 public:
  explicit SeededSampler(std::uint64_t seed) : seed_(seed) {}
  Result<Token> Sample(std::span<const float> logits) override;
  void Accept(Token) override { ++step_; }

 private:
  const std::uint64_t seed_;
  std::uint64_t step_ = 0;
};

}  // namespace skippy::runtime::fake
