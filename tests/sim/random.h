// A small seeded generator: the only source of chance in the simulator, so a seed is a whole run.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "runtime/fake/fake_state.h"

namespace skippy::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(runtime::fake::Mix(seed, 0x53696d)) {}

  std::uint64_t Next() { return runtime::fake::Mix(++state_); }
  // Uniform enough in [0, bound); bound > 0.
  std::uint64_t Below(std::uint64_t bound) { return Next() % bound; }
  std::uint32_t Between(std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(Below(high - low + 1));
  }
  bool Chance(std::uint32_t percent) { return Below(100) < percent; }
  template <class T>
  T OneOf(std::initializer_list<T> choices) {
    return *(choices.begin() + static_cast<std::ptrdiff_t>(Below(choices.size())));
  }

 private:
  std::uint64_t state_;
};

}  // namespace skippy::sim
