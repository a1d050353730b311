#include "certify/sampler.h"

#include <algorithm>
#include <cmath>

#include "certify/subject.h"
#include "skippy/random.h"

namespace skippy::certify {
namespace {

constexpr double kTemperature = 0.8;

}  // namespace

Token ArgMax(std::span<const float> logits) {
  return static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

Result<Token> SeededSampler::Sample(std::span<const float> logits) {
  if (logits.empty()) return Err(ErrorCode::kInternal, "no logits to sample from");
  const double greatest = *std::max_element(logits.begin(), logits.end());
  const auto weight = [&](float logit) {
    return std::exp((static_cast<double>(logit) - greatest) / kTemperature);
  };
  double sum = 0;
  for (const float logit : logits) sum += weight(logit);
  const double unit = static_cast<double>(SplitMix64(seed_ ^ SplitMix64(step_)) >> 11U) /
                      static_cast<double>(1ULL << 53U);
  double rest = unit * sum;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    rest -= weight(logits[i]);
    if (rest < 0) return static_cast<Token>(i);
  }
  return ArgMax(logits);
}

Result<std::unique_ptr<runtime::Sampler>> Subject::MakeSampler(std::uint64_t seed) {
  return std::unique_ptr<runtime::Sampler>(std::make_unique<SeededSampler>(seed));
}

}  // namespace skippy::certify
