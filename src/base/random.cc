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

// SplitMix64 (Steele, Lea, Flood 2014): a counter with an odd step, so that no value repeats, and
// a mixer that is a bijection.
std::uint64_t RandomBits() {
  static std::atomic<std::uint64_t> state{Entropy()};
  std::uint64_t bits = state.fetch_add(0x9e3779b97f4a7c15U, std::memory_order_relaxed);
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31);
}

}  // namespace skippy
