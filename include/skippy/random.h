// Random bits for seeds and identifiers, and bits that only look random. Not for secrets.
#pragma once

#include <cstdint>

namespace skippy {

// 64 bits that no other call of this process and, to all likelihood, of no other process returned.
// Threads: any. Cost: nanoseconds; the operating system is asked once a process, since its random
// device takes tens of microseconds on a virtual machine, which is felt when an answer takes less
// than a millisecond.
std::uint64_t RandomBits();

// SplitMix64 (Steele, Lea, Flood 2014): the step and the mixer of its generator. A bijection; every
// bit of the input reaches every bit of the result.
constexpr std::uint64_t SplitMix64(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31U);
}

}  // namespace skippy
