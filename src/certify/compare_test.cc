#include "certify/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "certify/sampler.h"

namespace skippy::certify {
namespace {

Answer AnswerOf(std::vector<std::vector<float>> logits) {
  Answer answer;
  for (auto& row : logits) {
    answer.tokens.push_back(ArgMax(row));
    answer.logits.push_back(std::move(row));
  }
  answer.report.finish = engine::FinishReason::kLength;
  return answer;
}

Row Judged(Promise promise, const Answer& cold, const Answer& tested, double noise,
           bool sampled = false) {
  Row row;
  row.promise = promise;
  row.prompt_tokens = 100;
  Judge(row, Compare(cold, tested), sampled, [&] { return noise; });
  return row;
}

const Answer kCold = AnswerOf({{1, 5, 2}, {4, 3, 0}, {0, 1, 9}});

TEST(JudgeTest, EqualBitsAreBitForEveryPromise) {
  for (const Promise promise : {Promise::kBoth, Promise::kBit, Promise::kToken})
    EXPECT_EQ(Judged(promise, kCold, kCold, 0).verdict, Verdict::kBit);
}

TEST(JudgeTest, OneLastBitIsNoBit) {
  Answer near = kCold;
  near.logits[1][2] = std::nextafter(0.0F, 1.0F);
  EXPECT_EQ(Judged(Promise::kBit, kCold, near, 1).verdict, Verdict::kFail);
  EXPECT_EQ(Judged(Promise::kBoth, kCold, near, 1).verdict, Verdict::kFail);
  const Row row = Judged(Promise::kToken, kCold, near, 1);
  EXPECT_EQ(row.verdict, Verdict::kToken);
  EXPECT_FALSE(row.tie);
  EXPECT_EQ(row.first_difference, 101U);
  EXPECT_GT(row.largest_difference, 0);
  EXPECT_EQ(row.smallest_margin, 1);  // 4 against 3
}

TEST(JudgeTest, MinusZeroIsAnotherBit) {
  Answer near = kCold;
  near.logits[1][2] = -0.0F;
  EXPECT_EQ(Judged(Promise::kBit, kCold, near, 1).verdict, Verdict::kFail);
}

TEST(JudgeTest, OtherTokensFailUnlessTheNoiseExplainsThem) {
  // The second step's two best, one apart, change places.
  const Answer other = AnswerOf({{1, 5, 2}, {3.4F, 3.6F, 0}, {0, 1, 9}});
  const Row failed = Judged(Promise::kToken, kCold, other, 0.5);
  EXPECT_EQ(failed.verdict, Verdict::kFail);
  EXPECT_EQ(failed.first_difference, 101U);
  EXPECT_EQ(failed.compared, 2U);
  const Row tie = Judged(Promise::kToken, kCold, other, 1.0);
  EXPECT_EQ(tie.verdict, Verdict::kToken);
  EXPECT_TRUE(tie.tie);
  EXPECT_EQ(Judged(Promise::kBit, kCold, other, 1.0).verdict, Verdict::kFail);
}

TEST(JudgeTest, ATieDoesNotExcuseLogitsFarOff) {
  const Answer far = AnswerOf({{1, 5, 2}, {3.4F, 3.6F, -3}, {0, 1, 9}});
  EXPECT_EQ(Judged(Promise::kToken, kCold, far, 1.0).verdict, Verdict::kFail);
}

TEST(JudgeTest, ShorterAnswersFail) {
  Answer shorter = kCold;
  shorter.tokens.pop_back();
  shorter.logits.pop_back();
  const Row row = Judged(Promise::kToken, kCold, shorter, 10);
  EXPECT_EQ(row.verdict, Verdict::kFail);
  EXPECT_EQ(row.first_difference, 102U);
}

TEST(JudgeTest, NoStepsAreNoPass) {
  const Answer nothing = AnswerOf({});
  EXPECT_NE(Judged(Promise::kBit, nothing, nothing, 0).verdict, Verdict::kBit);
}

TEST(JudgeTest, EqualLogitsUponAnotherStateAreNoBit) {
  Answer cold = kCold;
  Answer other = kCold;
  cold.state = Digest{};
  other.state = Digest{{1}};
  for (const Promise promise : {Promise::kBit, Promise::kBoth})
    EXPECT_EQ(Judged(promise, cold, other, 0).verdict, Verdict::kFail);
  EXPECT_EQ(Judged(Promise::kToken, cold, other, 0).verdict, Verdict::kBit);
  other.state.reset();  // unknown
  EXPECT_EQ(Judged(Promise::kBit, cold, other, 0).verdict, Verdict::kBit);
}

TEST(JudgeTest, NotANumberIsInfinitelyFar) {
  Answer broken = kCold;
  broken.logits[0][0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isinf(Judged(Promise::kToken, kCold, broken, 1).largest_difference));
}

TEST(OverallTest, IsTheStrongestWordThatHoldsForAll) {
  const auto row = [](Promise promise, Verdict verdict, bool reference = false) {
    Row one;
    one.promise = promise;
    one.verdict = verdict;
    one.reference = reference;
    return one;
  };
  std::vector<Row> rows = {
      row(Promise::kBoth, Verdict::kBit), row(Promise::kToken, Verdict::kToken),
      row(Promise::kBit, Verdict::kNotApplicable), row(Promise::kBoth, Verdict::kFail, true)};
  EXPECT_EQ(Overall(rows, Exactness::kBit), Verdict::kBit);
  EXPECT_EQ(Overall(rows, Exactness::kToken), Verdict::kToken);
  rows.push_back(row(Promise::kBit, Verdict::kFail));
  EXPECT_EQ(Overall(rows, Exactness::kBit), Verdict::kFail);
  EXPECT_EQ(Overall(rows, Exactness::kToken), Verdict::kToken);
  rows.push_back(row(Promise::kBoth, Verdict::kFail));
  EXPECT_EQ(Overall(rows, Exactness::kToken), Verdict::kFail);
}

TEST(OverallTest, NothingTriedIsNoPass) {
  EXPECT_EQ(Overall({}, Exactness::kBit), Verdict::kFail);
  Row row;
  row.verdict = Verdict::kNotApplicable;
  EXPECT_EQ(Overall({row}, Exactness::kToken), Verdict::kFail);
}

TEST(SamplerTest, SeededDrawsRepeatAndDependOnSeedAndStep) {
  const std::vector<float> logits = {0.5F, 0.4F, 0.6F, 0.55F};
  const auto drawn = [&](std::uint64_t seed) {
    SeededSampler sampler(seed);
    std::vector<Token> tokens;
    for (int i = 0; i < 32; ++i) {
      tokens.push_back(*sampler.Sample(logits));
      EXPECT_EQ(*sampler.Sample(logits), tokens.back());  // does not advance
      sampler.Accept(tokens.back());
    }
    return tokens;
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
  EXPECT_NE(drawn(1), std::vector<Token>(32, drawn(1)[0]));
}

}  // namespace
}  // namespace skippy::certify
