#include "runtime/fake/fake_sampler.h"

#include <cmath>

#include "runtime/fake/fake_state.h"

namespace skippy::runtime::fake {

Result<Token> GreedySampler::Sample(std::span<const float> logits) {
  if (logits.empty()) return Err(ErrorCode::kInvalidArgument, "no logits to sample from");
  std::size_t best = 0;
  for (std::size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[best]) best = i;
  }
  return static_cast<Token>(best);
}

Result<Token> SeededSampler::Sample(std::span<const float> logits) {
  if (logits.empty()) return Err(ErrorCode::kInvalidArgument, "no logits to sample from");
  std::uint64_t best_score = 0;
  std::size_t best = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double whole = std::isfinite(logits[i]) ? std::floor(double{logits[i]}) : 0.0;
    const std::uint64_t score = Mix(Mix(seed_, step_), static_cast<std::uint64_t>(whole));
    if (i == 0 || score > best_score) {
      best_score = score;
      best = i;
    }
  }
  return static_cast<Token>(best);
}

}  // namespace skippy::runtime::fake
