#include "pipeline/wire.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

namespace skippy::pipeline {
namespace {

constexpr std::uint32_t kWidth = 48;
constexpr WireFormat kAll[] = {WireFormat::kF32, WireFormat::kBf16, WireFormat::kF16,
                               WireFormat::kInt8};

std::vector<float> There(WireFormat format, std::span<const float> rows) {
  const auto bytes = Encode(format, rows, kWidth);
  EXPECT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(bytes->size(), rows.size() / kWidth * WireBytes(format, kWidth));
  const auto back = Decode(format, *bytes, kWidth);
  EXPECT_TRUE(back) << back.error().message;
  return back ? *back : std::vector<float>();
}

// Rows as models have them: most values about 1, a few thousands in the same places.
std::vector<float> Rows() {
  std::vector<float> rows(std::size_t{20} * kWidth);
  std::mt19937 random(3);
  std::normal_distribution<float> values;
  for (float& value : rows) value = values(random);
  for (std::size_t i = 0; i < rows.size(); i += kWidth) {
    rows[i + 5] *= 3000;
    rows[i + 17] *= -900;
  }
  return rows;
}

double Nmse(std::span<const float> exact, std::span<const float> other) {
  double error = 0;
  double power = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += std::pow(double{exact[i]} - double{other[i]}, 2);
    power += std::pow(double{exact[i]}, 2);
  }
  return error / power;
}

TEST(Wire, F32IsExactToTheBit) {
  std::vector<float> rows = Rows();
  rows[3] = -0.0F;
  rows[4] = std::nanf("1");
  rows[5] = INFINITY;
  const std::vector<float> back = There(WireFormat::kF32, rows);
  ASSERT_EQ(back.size(), rows.size());
  EXPECT_EQ(std::memcmp(back.data(), rows.data(), rows.size() * sizeof(float)), 0);
}

TEST(Wire, LossyOnesStayNearAndKeepZeros) {
  const std::vector<float> rows = Rows();
  EXPECT_LT(Nmse(rows, There(WireFormat::kBf16, rows)), 1e-5);
  EXPECT_LT(Nmse(rows, There(WireFormat::kF16, rows)), 1e-6);
  const std::vector<float> zeros(std::size_t{2} * kWidth, 0.0F);
  for (const WireFormat format : kAll) EXPECT_EQ(There(format, zeros), zeros);
}

TEST(Wire, Int8KeepsOutliersExactlyAndTheRestToHalfAStep) {
  const std::vector<float> rows = Rows();
  const std::vector<float> back = There(WireFormat::kInt8, rows);
  for (std::size_t row = 0; row < rows.size(); row += kWidth) {
    std::vector<float> sizes;
    for (std::size_t i = row; i < row + kWidth; ++i) sizes.push_back(std::abs(rows[i]));
    std::sort(sizes.rbegin(), sizes.rend());
    for (std::size_t i = row; i < row + kWidth; ++i) {
      if (std::abs(rows[i]) >= sizes[kOutliers - 1]) {
        EXPECT_EQ(back[i], rows[i]);
      } else {
        EXPECT_NEAR(back[i], rows[i], sizes[kOutliers] / 127 * 0.5001);
      }
    }
  }
}

TEST(Wire, F16RefusesWhatItCannotCarry) {
  std::vector<float> rows = Rows();
  rows[7] = 98410;
  const auto refused = Encode(WireFormat::kF16, rows, kWidth);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(refused.error().message.find("bf16"), std::string::npos);
}

TEST(Wire, RefusesSizesThatDoNotFit) {
  const std::vector<float> rows(kWidth + 1);
  for (const WireFormat format : kAll) {
    EXPECT_FALSE(Encode(format, rows, kWidth));
    EXPECT_FALSE(Decode(format, std::vector<std::byte>(WireBytes(format, kWidth) + 1), kWidth));
    EXPECT_EQ(ParseWire(WireName(format)), format);
  }
  EXPECT_FALSE(Encode(WireFormat::kInt8, rows, 1));
  EXPECT_EQ(ParseWire("q4"), std::nullopt);
  // An outlier's place beyond the row.
  auto bytes = Encode(WireFormat::kInt8, std::vector<float>(kWidth, 1.0F), kWidth);
  ASSERT_TRUE(bytes);
  const std::uint32_t beyond = kWidth;
  std::memcpy(bytes->data() + sizeof(float), &beyond, sizeof beyond);
  EXPECT_FALSE(Decode(WireFormat::kInt8, *bytes, kWidth));
}

}  // namespace
}  // namespace skippy::pipeline
