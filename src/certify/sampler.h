// Samplers of the certifier: the arg max, and a seeded draw by temperature.
//
// Both depend on nothing but their constructor's arguments, the logits and the number of accepted
// tokens, so equal logits give equal tokens.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/runtime.h"

namespace skippy::certify {

// The lowest of the tokens with the greatest logit.
Token ArgMax(std::span<const float> logits);

class GreedySampler final : public runtime::Sampler {
 public:
  Result<Token> Sample(std::span<const float> logits) override { return ArgMax(logits); }
  void Accept(Token) override {}
};

// exp((logit - greatest) / temperature), inverted at a number drawn from seed and step.
class SeededSampler final : public runtime::Sampler {
 public:
  explicit SeededSampler(std::uint64_t seed) : seed_(seed) {}
  Result<Token> Sample(std::span<const float> logits) override;
  void Accept(Token) override { ++step_; }

 private:
  const std::uint64_t seed_;
  std::uint64_t step_ = 0;
};

}  // namespace skippy::certify
