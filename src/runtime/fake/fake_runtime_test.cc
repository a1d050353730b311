// The fake runtime keeps the port's promises and the memory rules of llama.cpp.
#include "runtime/fake/fake_runtime.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/fake/fake_sampler.h"
#include "runtime/fake/fake_testing.h"

namespace skippy::runtime::fake {
namespace {

FakeOptions WithShape(ShapeKind shape) {
  FakeOptions options;
  options.shape = shape;
  return options;
}

TEST(FakeRuntime, SameTokensGiveSameLogitsInAnyLane) {
  FakeRuntime runtime(WithShape(ShapeKind::kHybridWindow));
  const std::vector<Token> tokens = SomeTokens(70);
  EXPECT_EQ(Evaluate(runtime, kLaneA, tokens), Evaluate(runtime, kLaneB, tokens));
}

TEST(FakeRuntime, OneOtherTokenGivesOtherLogits) {
  FakeRuntime runtime(WithShape(ShapeKind::kAttention));
  std::vector<Token> tokens = SomeTokens(70);
  const std::vector<float> original = Evaluate(runtime, kLaneA, tokens);
  tokens[0] = (tokens[0] + 1) % 64;
  EXPECT_NE(Evaluate(runtime, kLaneB, tokens), original);
}

TEST(FakeRuntime, OtherAdaptersGiveOtherLogits) {
  FakeRuntime runtime(FakeOptions{});
  const std::vector<Token> tokens = SomeTokens(20);
  const std::vector<float> plain = Evaluate(runtime, kLaneA, tokens);
  const std::vector<std::pair<std::uint32_t, float>> adapters = {{1, 0.5F}};
  ASSERT_TRUE(runtime.UseAdapters(adapters));
  EXPECT_NE(Evaluate(runtime, kLaneB, tokens), plain);
  runtime.Clear(kLaneB);
  ASSERT_TRUE(runtime.UseAdapters({}));
  EXPECT_EQ(Evaluate(runtime, kLaneB, tokens), plain);
}

TEST(FakeRuntime, UnknownAdapterIsRefused) {
  const FakeRuntime runtime(FakeOptions{});
  const std::vector<std::pair<std::uint32_t, float>> adapters = {{2, 1.0F}};
  const auto resolved = runtime.ResolveAdapters(adapters);
  ASSERT_FALSE(resolved);
  EXPECT_EQ(resolved.error().code, ErrorCode::kInvalidArgument);
}

TEST(FakeRuntime, DecodeRefusesAWrongPosition) {
  FakeRuntime runtime(FakeOptions{});
  const std::vector<Token> tokens = SomeTokens(4);
  const DecodeItem item{kLaneA, 1, tokens, true};
  EXPECT_EQ(runtime.Decode({&item, 1}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(runtime.End(kLaneA), 0U);
}

TEST(FakeRuntime, DecodeRefusesMoreThanAChunkAndMoreThanTheContext) {
  FakeOptions options;
  options.context = 20;
  FakeRuntime runtime(options);
  const std::vector<Token> tokens = SomeTokens(17);
  const DecodeItem too_many{kLaneA, 0, tokens, true};
  EXPECT_EQ(runtime.Decode({&too_many, 1}).error().code, ErrorCode::kInvalidArgument);
  Evaluate(runtime, kLaneA, TokenSpan(tokens).first(16));
  const DecodeItem over{kLaneA, 16, TokenSpan(tokens).first(5), true};
  EXPECT_EQ(runtime.Decode({&over, 1}).error().code, ErrorCode::kResourceExhausted);
}

TEST(FakeRuntime, BatchedDecodeEqualsDecodeAloneWithoutShapeNoise) {
  FakeRuntime runtime(FakeOptions{});
  const std::vector<Token> one = SomeTokens(20, 1);
  const std::vector<Token> two = SomeTokens(25, 2);
  Evaluate(runtime, kLaneA, one);
  Evaluate(runtime, kLaneB, two);
  const std::vector<Token> next = {3, 4};
  const std::vector<DecodeItem> items = {{kLaneA, 20, TokenSpan(next).first(1), true},
                                         {kLaneB, 25, TokenSpan(next).last(1), true}};
  ASSERT_TRUE(runtime.Decode(items));
  const std::vector<float> batched(runtime.Logits(1).begin(), runtime.Logits(1).end());
  runtime.Clear(kLaneA);
  std::vector<Token> whole = two;
  whole.push_back(4);
  EXPECT_EQ(Evaluate(runtime, kLaneA, whole), batched);
}

TEST(FakeRuntime, ShapeNoiseChangesLowBitsAndNeverTokens) {
  FakeOptions options;
  options.shape_noise = true;
  FakeRuntime runtime(options);
  const std::vector<Token> tokens = SomeTokens(16);
  const std::vector<float> in_one_chunk = Evaluate(runtime, kLaneA, tokens);
  for (Pos i = 0; i < 16; ++i) {
    const DecodeItem item{kLaneB, i, TokenSpan(tokens).subspan(i, 1), true};
    ASSERT_TRUE(runtime.Decode({&item, 1}));
  }
  const std::vector<float> one_by_one(runtime.Logits(0).begin(), runtime.Logits(0).end());
  EXPECT_NE(in_one_chunk, one_by_one);
  for (std::size_t i = 0; i < in_one_chunk.size(); ++i) {
    EXPECT_EQ(std::floor(in_one_chunk[i]), std::floor(one_by_one[i]));
  }
  GreedySampler greedy;
  EXPECT_EQ(*greedy.Sample(in_one_chunk), *greedy.Sample(one_by_one));
}

TEST(FakeRuntime, AttentionCanBeCutBackAnywhere) {
  FakeRuntime runtime(FakeOptions{});
  const std::vector<Token> tokens = SomeTokens(50);
  const std::vector<float> cold = Evaluate(runtime, kLaneA, TokenSpan(tokens).first(31));
  Evaluate(runtime, kLaneB, tokens);
  ASSERT_TRUE(runtime.Truncate(kLaneB, 7));
  EXPECT_EQ(runtime.End(kLaneB), 7U);
  EXPECT_EQ(Evaluate(runtime, kLaneB, TokenSpan(tokens).first(31)), cold);
}

TEST(FakeRuntime, RecurrentMemoryCannotBeCutBackExceptToNothing) {
  FakeRuntime runtime(WithShape(ShapeKind::kRecurrent));
  Evaluate(runtime, kLaneA, SomeTokens(20));
  EXPECT_FALSE(runtime.Truncate(kLaneA, 19));
  EXPECT_EQ(runtime.End(kLaneA), 20U);
  EXPECT_TRUE(runtime.Truncate(kLaneA, 20));
  EXPECT_TRUE(runtime.Truncate(kLaneA, 0));
  EXPECT_EQ(runtime.End(kLaneA), 0U);
}

TEST(FakeRuntime, WindowCanBeCutBackWhileItsRowsAreHeld) {
  FakeRuntime runtime(WithShape(ShapeKind::kWindow));  // window 24, ring 40
  const std::vector<Token> tokens = SomeTokens(80);
  Evaluate(runtime, kLaneA, tokens);
  EXPECT_EQ(runtime.WindowHeldFrom(kLaneA), 40U);
  EXPECT_FALSE(runtime.Truncate(kLaneA, 63));
  EXPECT_EQ(runtime.End(kLaneA), 80U);
  ASSERT_TRUE(runtime.Truncate(kLaneA, 64));
  const std::vector<float> cold = Evaluate(runtime, kLaneB, TokenSpan(tokens).first(70));
  EXPECT_EQ(Evaluate(runtime, kLaneA, TokenSpan(tokens).first(70)), cold);
}

TEST(FakeRuntime, ForgottenWindowRowsCannotBeExported) {
  FakeRuntime runtime(WithShape(ShapeKind::kWindow));
  Evaluate(runtime, kLaneA, SomeTokens(80));
  std::vector<std::byte> row(runtime.info().shape.window_row_bytes);
  EXPECT_FALSE(runtime.ExportRows(kLaneA, Component::kWindow, {39, 40}, row));
  EXPECT_TRUE(runtime.ExportRows(kLaneA, Component::kWindow, {40, 41}, row));
}

TEST(FakeRuntime, ACopyIsTheSameSequence) {
  FakeRuntime runtime(WithShape(ShapeKind::kHybrid));
  std::vector<Token> tokens = SomeTokens(30);
  Evaluate(runtime, kLaneA, TokenSpan(tokens).first(20));
  ASSERT_TRUE(runtime.Copy(kLaneA, kLaneB));
  EXPECT_EQ(Evaluate(runtime, kLaneA, tokens), Evaluate(runtime, kLaneB, tokens));
  EXPECT_FALSE(runtime.Copy(kLaneA, kLaneB));
}

TEST(FakeRuntime, AFailedDecodeLeavesAnUnusableLane) {
  FaultPlan faults;
  faults.fail_decode.calls = {2};
  FakeRuntime runtime(FakeOptions{}, faults);
  const std::vector<Token> tokens = SomeTokens(32);
  Evaluate(runtime, kLaneA, TokenSpan(tokens).first(16));
  const DecodeItem item{kLaneA, 16, TokenSpan(tokens).last(16), true};
  EXPECT_FALSE(runtime.Decode({&item, 1}));
  EXPECT_EQ(runtime.counters().faults, 1U);
  runtime.Clear(kLaneA);
  EXPECT_EQ(Evaluate(runtime, kLaneA, tokens), Evaluate(runtime, kLaneB, tokens));
}

TEST(FakeRuntime, AFailedImportLeavesTheLaneEmptyAndALieEndsEarly) {
  FaultPlan faults;
  faults.fail_import.calls = {1};
  faults.lie_import.calls = {2};
  FakeRuntime runtime(FakeOptions{}, faults);
  const std::vector<Token> tokens = SomeTokens(20);
  Evaluate(runtime, kLaneA, tokens);
  const SavedBoundary saved = Save(runtime, kLaneA, tokens, 8);
  Evaluate(runtime, kLaneB, SomeTokens(5));
  EXPECT_FALSE(Restore(runtime, kLaneB, saved));
  EXPECT_EQ(runtime.End(kLaneB), 0U);
  EXPECT_TRUE(Restore(runtime, kLaneB, saved));
  EXPECT_EQ(runtime.End(kLaneB), 19U);
  EXPECT_TRUE(Restore(runtime, kLaneB, saved));
  EXPECT_EQ(runtime.End(kLaneB), 20U);
}

TEST(FakeRuntime, FaultsByChanceDependOnTheSeedAlone) {
  const auto failures = [](std::uint64_t seed) {
    FaultPlan faults;
    faults.seed = seed;
    faults.fail_decode.permille = 300;
    FakeRuntime runtime(FakeOptions{}, faults);
    std::vector<bool> failed;
    const std::vector<Token> token = {1};
    for (int i = 0; i < 64; ++i) {
      runtime.Clear(kLaneA);
      const DecodeItem item{kLaneA, 0, token, false};
      failed.push_back(!runtime.Decode({&item, 1}).has_value());
    }
    return failed;
  };
  EXPECT_EQ(failures(5), failures(5));
  EXPECT_NE(failures(5), failures(6));
}

TEST(FakeRuntime, SeededSamplersAgreeOnTheirSeed) {
  FakeRuntime runtime(FakeOptions{});
  const std::vector<float> logits = Evaluate(runtime, kLaneA, SomeTokens(9));
  SeededSampler a(11);
  SeededSampler b(11);
  for (int i = 0; i < 20; ++i) {
    const Token token = *a.Sample(logits);
    EXPECT_EQ(token, *b.Sample(logits));
    a.Accept(token);
    b.Accept(token);
  }
}

}  // namespace
}  // namespace skippy::runtime::fake
