#include "cli/flag_suggest.h"

#include <gtest/gtest.h>

namespace skippy::cli {
namespace {

const std::vector<std::string> kKnown{"--model", "--port", "--parallel", "--cache-ram", "-np"};

TEST(EditDistance, CountsChangesAndSwaps) {
  EXPECT_EQ(EditDistance("", "abc"), 3U);
  EXPECT_EQ(EditDistance("abc", "abc"), 0U);
  EXPECT_EQ(EditDistance("abc", "abd"), 1U);
  EXPECT_EQ(EditDistance("abcd", "abdc"), 1U);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3U);
}

TEST(NearestFlag, FindsTheLikelyMeaning) {
  EXPECT_EQ(NearestFlag("--modle", kKnown), "--model");
  EXPECT_EQ(NearestFlag("--paralel", kKnown), "--parallel");
  EXPECT_EQ(NearestFlag("--cache", kKnown), "--cache-ram");
  EXPECT_EQ(NearestFlag("-mp", kKnown), "-np");
}

TEST(NearestFlag, SaysNothingWhenNothingIsNear) {
  EXPECT_EQ(NearestFlag("--zzzzzzzz", kKnown), std::nullopt);
  EXPECT_EQ(NearestFlag(std::string(100, 'm'), kKnown), std::nullopt);
}

}  // namespace
}  // namespace skippy::cli
