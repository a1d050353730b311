// What the stages share.
#include "engine/core.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace skippy::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

bool Sane(const std::vector<float>& logits) { return LogitsAreSane(logits); }

TEST(LogitsAreSane, AcceptsNumbersAndForbiddenTokens) {
  EXPECT_TRUE(Sane({0.0F, -3.5F, 12.0F}));
  EXPECT_TRUE(Sane({-kInfinity, 1.0F, -kInfinity}));
}

TEST(LogitsAreSane, RefusesASingleNanOrInfinity) {
  EXPECT_FALSE(Sane({0.0F, kNan, 12.0F}));
  EXPECT_FALSE(Sane({0.0F, -3.5F, kInfinity}));
}

TEST(LogitsAreSane, RefusesLogitsWithNothingToChooseFrom) {
  EXPECT_FALSE(Sane({}));
  EXPECT_FALSE(Sane({-kInfinity, -kInfinity}));
}

TEST(CommonPrefix, EndsAtTheFirstDifferentTokenOrTheShorterText) {
  const std::vector<Token> a = {1, 2, 3};
  const std::vector<Token> b = {1, 2, 4, 5};
  EXPECT_EQ(CommonPrefix(a, b), 2U);
  EXPECT_EQ(CommonPrefix(a, a), 3U);
  EXPECT_EQ(CommonPrefix(a, {}), 0U);
  EXPECT_EQ(CommonPrefix(TokenSpan(b).first(2), b), 2U);
}

}  // namespace
}  // namespace skippy::engine
