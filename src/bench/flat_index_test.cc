#include "bench/flat_index.h"

#include <gtest/gtest.h>

#include "bench/flat_replay.h"
#include "bench/optimum.h"

namespace skippy::bench {
namespace {

std::vector<Token> Text(std::size_t count, Token first = 0) {
  std::vector<Token> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = first + static_cast<Token>(i % 50);
  return tokens;
}

TEST(FlatIndexTest, FindsWholePagesAndPromptEndsAndNothingElse) {
  FlatIndex index({.page_tokens = 8, .cap_rows = 1000});
  const std::vector<Token> text = Text(30);
  index.Record(TokenSpan(text).first(21));
  EXPECT_EQ(index.rows(), 21U);
  EXPECT_EQ(index.Lookup(text, 29).boundary(), 21U);
  EXPECT_EQ(index.Lookup(TokenSpan(text).first(21), 20).boundary(), 20U);
  // The text parts in the middle of a page.
  std::vector<Token> other = text;
  other[19] = 99;
  EXPECT_EQ(index.Lookup(other, 29).boundary(), 16U);
  other[3] = 99;
  EXPECT_EQ(index.Lookup(other, 29).boundary(), 0U);
  // The rest of the shorter prompt stays beside the longer one's whole page.
  index.Record(text);
  EXPECT_EQ(index.rows(), 30U + 5U);
  const FlatIndex::Hit hit = index.Lookup(text, 29);
  EXPECT_EQ(hit.boundary(), 29U);
  EXPECT_EQ(hit.rows().size(), 4U);
  EXPECT_EQ(hit.rows().back().positions.begin, 24U);
}

TEST(FlatIndexTest, TheLeastUsedLeafGoesFirstAndPinsHold) {
  FlatIndex index({.page_tokens = 8, .cap_rows = 32});
  const std::vector<Token> a = Text(16, 0);
  const std::vector<Token> b = Text(16, 100);
  index.Record(a);
  index.Record(b);
  const FlatIndex::Hit pinned = index.Lookup(a, 15);
  index.Record(Text(16, 200));
  EXPECT_EQ(index.rows(), 32U);
  EXPECT_EQ(index.evicted_rows(), 16U);
  EXPECT_EQ(index.Lookup(b, 15).boundary(), 0U);
  EXPECT_EQ(index.Lookup(a, 15).boundary(), 15U);
  index.Record(Text(40, 300));
  EXPECT_EQ(index.Lookup(a, 15).boundary(), 15U) << "pinned";
  EXPECT_LE(index.rows(), 32U);
}

TEST(FlatReplayTest, ATraceOfWholePagesCostsWhatAPerfectTreeDoes) {
  const Trace trace = {16, {{0, 40, 0, {1, 2, 3}}, {0, 48, 0, {1, 2, 4}}, {0, 40, 0, {1, 2, 3}}}};
  const ReplayResult result =
      ReplayFlat(trace, 1000, {.page_tokens = 8, .cap_rows = 1 << 20, .row_bytes = 1});
  // What is known to its end evaluates its last token.
  EXPECT_EQ(result.evaluated_tokens, PerfectTree(trace).evaluated_tokens + 1);
  EXPECT_EQ(result.evaluated_tokens + result.cached_tokens, result.prompt_tokens);
}

}  // namespace
}  // namespace skippy::bench
