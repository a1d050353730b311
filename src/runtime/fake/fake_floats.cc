#include "runtime/fake/fake_floats.h"

#include <bit>
#include <cmath>

namespace skippy::runtime::fake {
namespace {

// Whole parts of logits stay below it and fractions are multiples of 1/256 below 1/2: 24 bits, an
// exact float.
constexpr std::uint64_t kLogitRange = 65536;
constexpr float kRowScale = 1024;  // a power of two, so that scaling is exact
constexpr std::uint64_t kRowDomain = 0x526f7746;

std::uint64_t HashFloat(std::uint64_t seed, float value) {
  return Mix(seed, std::bit_cast<std::uint32_t>(value));
}

}  // namespace

void WriteLogits(const DualHash& hash, std::span<float> out) {
  const std::uint64_t steps = kLogitRange / out.size();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t whole = (Mix(hash.high, i) % steps) * out.size() + i;
    const std::uint64_t fraction = Mix(hash.low, i) % 128;
    out[i] = static_cast<float>(whole) + static_cast<float>(fraction) / 256.0F;
  }
}

void WriteRow(const DualHash& hash, std::span<float> out) {
  WriteLogits({Mix(kRowDomain, hash.high), Mix(kRowDomain, hash.low)}, out);
  for (float& value : out) value /= kRowScale;
}

DualHash ReadRow(std::span<const float> row, bool noise) {
  DualHash hash;
  for (const float value : row) {
    hash.high = HashFloat(hash.high, noise ? std::floor(value * kRowScale) : value);
    hash.low = HashFloat(hash.low, value);
  }
  return hash;
}

}  // namespace skippy::runtime::fake
