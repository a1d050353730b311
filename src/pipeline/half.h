// 16-bit floats (IEEE 754 binary16, and bfloat16: the upper half of a binary32), rounded to
// nearest, ties to even.
//
// Threads: pure functions. Errors: none; ToHalf is for finite numbers up to 65504 in magnitude.
#pragma once

#include <bit>
#include <cstdint>

namespace skippy::pipeline {

inline std::uint16_t ToBfloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  constexpr std::uint32_t kQuiet = 0x40;
  if ((bits & 0x7fffffffU) > 0x7f800000U)  // not a number stays one
    return static_cast<std::uint16_t>(bits >> 16U | kQuiet);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U);
}

inline float FromBfloat(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16U);
}

inline std::uint16_t ToHalf(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16U & 0x8000U;
  std::uint32_t magnitude = bits & 0x7fffffffU;
  constexpr std::uint32_t kSmallestNormal = 0x38800000U;  // 2^-14
  if (magnitude < kSmallestNormal) {
    // Added to 0.5, whose last bit weighs 2^-24, the hardware rounds to a multiple of that.
    const float sum = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3f000000U));
  }
  // From exponents that begin at 127 to those that begin at 15, and half a last bit.
  magnitude += 0xc8000000U + 0xfffU + (magnitude >> 13U & 1U);
  return static_cast<std::uint16_t>(sign | magnitude >> 13U);
}

inline float FromHalf(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = bits >> 10U & 0x1fU;
  const std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  const std::uint32_t widened = exponent == 0x1fU ? 0xffU : exponent + 112U;
  return std::bit_cast<float>(sign | widened << 23U | mantissa << 13U);
}

}  // namespace skippy::pipeline
