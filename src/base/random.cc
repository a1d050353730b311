#include "skippy/random.h"

#include <atomic>
#include <random>

namespace skippy {
namespace {

std::uint64_t Entropy() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

// A counter behind a bijection: no value repeats.
std::uint64_t RandomBits() {
  static std::atomic<std::uint64_t> counter{Entropy()};
  return SplitMix64(counter.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace skippy
