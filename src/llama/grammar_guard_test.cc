#include "llama/grammar_guard.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace skippy::llama {
namespace {

std::string Nested(int depth) {
  return "root ::= " + std::string(static_cast<std::size_t>(depth), '(') + "\"a\"" +
         std::string(static_cast<std::size_t>(depth), ')');
}

TEST(GrammarGuardTest, OrdinaryGrammarsPass) {
  EXPECT_TRUE(CheckGrammarText(""));
  EXPECT_TRUE(CheckGrammarText("root ::= \"yes\" | \"no\""));
  EXPECT_TRUE(CheckGrammarText("root ::= ([a-z] (\"x\" | (\"y\" \"z\")))*\n# a comment ((((\n"));
}

TEST(GrammarGuardTest, NestingIsLimited) {
  EXPECT_TRUE(CheckGrammarText(Nested(kMaxGrammarNesting)));
  const auto deep = CheckGrammarText(Nested(kMaxGrammarNesting + 1));
  ASSERT_FALSE(deep);
  EXPECT_EQ(deep.error().code, ErrorCode::kInvalidArgument);
}

TEST(GrammarGuardTest, ParenthesesInLiteralsClassesAndCommentsDoNotCount) {
  const std::string many(5000, '(');
  EXPECT_TRUE(CheckGrammarText("root ::= \"" + many + "\""));
  EXPECT_TRUE(CheckGrammarText("root ::= [" + many + "]"));
  EXPECT_TRUE(CheckGrammarText("root ::= \"a\" # " + many));
  EXPECT_TRUE(CheckGrammarText("root ::= \"\\\"" + many + "\""));
  EXPECT_FALSE(CheckGrammarText("root ::= \"\\\\\"" + many)) << "the literal ended before";
}

TEST(GrammarGuardTest, RulesAndSizeAreLimited) {
  std::string rules;
  for (int i = 0; i <= kMaxGrammarRules; ++i) rules += fmt::format("r{} ::= \"a\"\n", i);
  EXPECT_FALSE(CheckGrammarText(rules));
  EXPECT_FALSE(CheckGrammarText("root ::= \"" + std::string(kMaxGrammarBytes, 'a') + "\""));
  EXPECT_FALSE(CheckGrammarText(std::string("root ::= \"a\0b\"", 14)));
}

TEST(GrammarGuardTest, RulesThatBeginWithEachOtherAreCounted) {
  EXPECT_TRUE(CheckLeftmostRules({}));
  EXPECT_TRUE(CheckLeftmostRules({{1, 2}, {2}, {}}));
  EXPECT_FALSE(CheckLeftmostRules({{1}, {2}, {0}})) << "left recursion";
  EXPECT_FALSE(CheckLeftmostRules({{0}})) << "left recursion";
  const auto ladder =
      [](std::size_t steps) {  // each rule begins with the next one in two ways: 2^steps paths
        LeftmostRules rules(steps + 1);
        for (std::size_t i = 0; i < steps; ++i) rules[i] = {i + 1, i + 1};
        return rules;
      };
  EXPECT_TRUE(CheckLeftmostRules(ladder(20)));
  EXPECT_FALSE(CheckLeftmostRules(ladder(60)));
  const auto chain = [](std::size_t steps) {
    LeftmostRules rules(steps);
    for (std::size_t i = 0; i + 1 < steps; ++i) rules[i] = {i + 1};
    return rules;
  };
  EXPECT_TRUE(CheckLeftmostRules(chain(kMaxLeftmostDepth)));
  EXPECT_FALSE(CheckLeftmostRules(chain(kMaxLeftmostDepth + 1)));
}

TEST(GrammarGuardTest, LlguidanceIsUnsupported) {
  const auto status = CheckGrammarText("%llguidance {}\nstart: /a/");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
}

TEST(GrammarGuardTest, UnclosedQuotesEnd) {
  EXPECT_TRUE(CheckGrammarText("root ::= \"abc"));
  EXPECT_TRUE(CheckGrammarText("root ::= [abc"));
  EXPECT_TRUE(CheckGrammarText("root ::= \"abc\\"));
}

}  // namespace
}  // namespace skippy::llama
