// How rows of activations travel between stages.
//
// f32 is exact and the default. The others lose bits: they are for links that are slower than the
// loss matters, and what is computed from them never enters the exact cache.
//
// Layout: rows one after the other, little endian. bf16, f16: two bytes a value. int8: per row a
// scale (f32), the positions (u32) and values (f32) of the kOutliers largest magnitudes, then one
// signed byte a value (that of an outlier is 0). Activations have a few huge values in fixed
// places; without the outliers the others would lose nearly all their bits.
//
// Threads: pure functions. Errors: kInvalidArgument (sizes that do not fit), kUnsupported (f16: a
// value beyond its range; it would become infinite). Cost: one pass; int8 also a partial sort a
// row.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "skippy/result.h"
#include "skippy/types.h"

namespace skippy::pipeline {

enum class WireFormat : std::uint8_t { kF32, kBf16, kF16, kInt8 };
inline constexpr std::uint32_t kOutliers = 8;

std::string_view WireName(WireFormat format);  // "f32", "bf16", "f16", "int8"
std::optional<WireFormat> ParseWire(std::string_view name);

std::size_t WireBytes(WireFormat format, std::uint32_t width);  // of a row

// `width`: floats of a row, at least kOutliers for int8.
Result<std::vector<std::byte>> Encode(WireFormat format, std::span<const float> rows,
                                      std::uint32_t width);
Result<std::vector<float>> Decode(WireFormat format, ByteSpan bytes, std::uint32_t width);

}  // namespace skippy::pipeline
