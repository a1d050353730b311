#include "api/body_scan.h"

#include <gtest/gtest.h>

#include <string>

namespace skippy::api {
namespace {

std::string Nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(ScanJson, NestingUpToTheLimitPasses) {
  EXPECT_TRUE(ScanJson(Nested(kMaxNesting)));
  const ApiStatus status = ScanJson(Nested(kMaxNesting + 1));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().status, 400);
}

TEST(ScanJson, BracketsInStringsDoNotCount) {
  EXPECT_TRUE(ScanJson("{\"a\":\"" + std::string(1000, '[') + "\"}"));
  EXPECT_TRUE(ScanJson("{\"a\":\"\\\"" + std::string(1000, '{') + "\"}"));
}

TEST(ScanJson, ObjectsWithVeryManyMembersAreRefused) {
  std::string body = "{";
  for (std::size_t i = 0; i <= kMaxMembers; ++i) body += "\"k" + std::to_string(i) + "\":0,";
  EXPECT_FALSE(ScanJson(body));
}

TEST(ScanJson, LongArraysPass) {
  std::string body = "[0";
  for (std::size_t i = 0; i < 2 * kMaxMembers; ++i) body += ",0";
  EXPECT_TRUE(ScanJson(body + "]"));
}

TEST(ScanJson, UnbalancedTextIsNoneOfItsBusiness) {
  EXPECT_TRUE(ScanJson("]]}}"));
  EXPECT_TRUE(ScanJson("\"never closed"));
  EXPECT_TRUE(ScanJson("\"ends in an escape\\"));
}

TEST(BracketDepth, CountsTheDeepestOpenGroups) {
  EXPECT_EQ(BracketDepth("a", '(', ')'), 0U);
  EXPECT_EQ(BracketDepth("(a)(b(c))", '(', ')'), 2U);
  EXPECT_EQ(BracketDepth("))((", '(', ')'), 2U);
}

TEST(LongestStretch, CountsWordsAndGaps) {
  EXPECT_EQ(LongestStretch(""), 0U);
  EXPECT_EQ(LongestStretch("ab cde f"), 3U);
  EXPECT_EQ(LongestStretch("a    b"), 4U);
  EXPECT_EQ(LongestStretch(" \n\t "), 4U);
}

TEST(MeasureGrammar, CountsAlternativesByRule) {
  EXPECT_EQ(MeasureGrammar("root ::= a | b\na ::= \"x\" | \"y\" | \"z\"\nb ::= \"q\"").alternatives,
            2U);
  EXPECT_EQ(MeasureGrammar("root ::= \"a|b|c\" | [|||]").alternatives, 1U);
  EXPECT_EQ(MeasureGrammar("# a | b | c\nroot ::= \"\\\"|\"").alternatives, 0U);
}

TEST(MeasureGrammar, MeasuresCharacterClasses) {
  EXPECT_EQ(MeasureGrammar("root ::= [a-z] [^\\]abc]").class_bytes, 7U);
  EXPECT_EQ(MeasureGrammar("root ::= \"[not a class]\"").class_bytes, 0U);
}

}  // namespace
}  // namespace skippy::api
