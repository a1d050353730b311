#include "pipeline/wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "pipeline/half.h"

namespace skippy::pipeline {
namespace {

constexpr std::size_t kOutlierBytes = kOutliers * (sizeof(std::uint32_t) + sizeof(float));
constexpr float kLargestByte = 127;
constexpr float kLargestF16 = 65504;

void EncodeRow(std::span<const float> row, std::byte* out) {
  std::vector<std::uint32_t> order(row.size());
  std::iota(order.begin(), order.end(), 0U);
  // Ties by position, so that equal rows have equal bytes.
  std::partial_sort(order.begin(), order.begin() + kOutliers, order.end(),
                    [&](std::uint32_t a, std::uint32_t b) {
                      const float x = std::abs(row[a]);
                      const float y = std::abs(row[b]);
                      return x != y ? x > y : a < b;
                    });
  std::vector<bool> outlier(row.size());
  float largest = 0;
  for (std::uint32_t i = 0; i < kOutliers; ++i) outlier[order[i]] = true;
  for (std::size_t i = 0; i < row.size(); ++i)
    if (!outlier[i]) largest = std::max(largest, std::abs(row[i]));
  const float scale = largest / kLargestByte;
  std::memcpy(out, &scale, sizeof scale);
  out += sizeof scale;
  for (std::uint32_t i = 0; i < kOutliers; ++i) {
    std::memcpy(out, &order[i], sizeof order[i]);
    std::memcpy(out + sizeof order[i], &row[order[i]], sizeof(float));
    out += sizeof order[i] + sizeof(float);
  }
  for (std::size_t i = 0; i < row.size(); ++i) {
    const float steps = outlier[i] || scale == 0 ? 0 : std::nearbyint(row[i] / scale);
    out[i] = static_cast<std::byte>(static_cast<std::int8_t>(steps));
  }
}

Status DecodeRow(const std::byte* in, std::span<float> row) {
  float scale = 0;
  std::memcpy(&scale, in, sizeof scale);
  const std::byte* outliers = in + sizeof scale;
  const std::byte* steps = outliers + kOutlierBytes;
  for (std::size_t i = 0; i < row.size(); ++i)
    row[i] = scale * static_cast<float>(static_cast<std::int8_t>(steps[i]));
  for (std::uint32_t i = 0; i < kOutliers; ++i) {
    std::uint32_t at = 0;
    std::memcpy(&at, outliers, sizeof at);
    if (at >= row.size())
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("a row of {} values with an outlier at {}", row.size(), at));
    std::memcpy(&row[at], outliers + sizeof at, sizeof(float));
    outliers += sizeof at + sizeof(float);
  }
  return {};
}

void EncodeEach(std::span<const float> rows, std::uint16_t (*encode)(float), std::byte* out) {
  for (const float value : rows) {
    const std::uint16_t bits = encode(value);
    std::memcpy(out, &bits, sizeof bits);
    out += sizeof bits;
  }
}

void DecodeEach(ByteSpan bytes, float (*decode)(std::uint16_t), std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
    out[i] = decode(bits);
  }
}

}  // namespace

std::string_view WireName(WireFormat format) {
  switch (format) {
    case WireFormat::kF32: return "f32";
    case WireFormat::kBf16: return "bf16";
    case WireFormat::kF16: return "f16";
    case WireFormat::kInt8: return "int8";
  }
  return "unknown";
}

std::optional<WireFormat> ParseWire(std::string_view name) {
  for (const WireFormat format :
       {WireFormat::kF32, WireFormat::kBf16, WireFormat::kF16, WireFormat::kInt8})
    if (WireName(format) == name) return format;
  return std::nullopt;
}

std::size_t WireBytes(WireFormat format, std::uint32_t width) {
  switch (format) {
    case WireFormat::kF32: return std::size_t{4} * width;
    case WireFormat::kBf16:
    case WireFormat::kF16: return std::size_t{2} * width;
    case WireFormat::kInt8: return sizeof(float) + kOutlierBytes + width;
  }
  return 0;
}

Result<std::vector<std::byte>> Encode(WireFormat format, std::span<const float> rows,
                                      std::uint32_t width) {
  if (width == 0 || rows.size() % width != 0 || (format == WireFormat::kInt8 && width < kOutliers))
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("{} values are no {} rows of {}", rows.size(), WireName(format), width));
  if (rows.empty()) return std::vector<std::byte>{};
  const std::size_t count = rows.size() / width;
  std::vector<std::byte> bytes(count * WireBytes(format, width));
  switch (format) {
    case WireFormat::kF32: std::memcpy(bytes.data(), rows.data(), rows.size_bytes()); break;
    case WireFormat::kBf16: EncodeEach(rows, &ToBfloat, bytes.data()); break;
    case WireFormat::kF16:
      for (const float value : rows)
        if (!(std::abs(value) <= kLargestF16))
          return Err(ErrorCode::kUnsupported,
                     fmt::format("f16 cannot carry {}: its largest number is {}; use bf16", value,
                                 kLargestF16));
      EncodeEach(rows, &ToHalf, bytes.data());
      break;
    case WireFormat::kInt8:
      for (std::size_t i = 0; i < count; ++i)
        EncodeRow(rows.subspan(i * width, width), bytes.data() + i * WireBytes(format, width));
      break;
  }
  return bytes;
}

Result<std::vector<float>> Decode(WireFormat format, ByteSpan bytes, std::uint32_t width) {
  const std::size_t row = WireBytes(format, width);
  if (row == 0 || width == 0 || bytes.size() % row != 0 ||
      (format == WireFormat::kInt8 && width < kOutliers))
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("{} bytes are no {} rows of {}", bytes.size(), WireName(format), width));
  if (bytes.empty()) return std::vector<float>{};
  const std::size_t count = bytes.size() / row;
  std::vector<float> rows(count * width);
  switch (format) {
    case WireFormat::kF32: std::memcpy(rows.data(), bytes.data(), bytes.size()); break;
    case WireFormat::kBf16: DecodeEach(bytes, &FromBfloat, rows); break;
    case WireFormat::kF16: DecodeEach(bytes, &FromHalf, rows); break;
    case WireFormat::kInt8:
      for (std::size_t i = 0; i < count; ++i)
        SKIPPY_RETURN_IF_ERROR(
            DecodeRow(bytes.data() + i * row, std::span(rows).subspan(i * width, width)));
      break;
  }
  return rows;
}

}  // namespace skippy::pipeline
