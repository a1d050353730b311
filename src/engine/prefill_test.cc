// Chunks, what they leave behind, and what happens when one goes wrong.
#include <gtest/gtest.h>

#include "engine/engine_testing.h"

namespace skippy::engine {
namespace {

WorldOptions WithShape(ShapeKind shape, std::uint32_t lanes = 1) {
  WorldOptions world;
  world.fake.shape = shape;
  world.fake.lanes = lanes;
  world.engine.snapshot_spacing = 16;
  return world;
}

class PrefillTest : public testing::TestWithParam<ShapeKind> {};
INSTANTIATE_TEST_SUITE_P(Shapes, PrefillTest, testing::ValuesIn(AllShapes()), ShapeTestName);

TEST_P(PrefillTest, AChunkEndsOnTheGridAlsoAfterARestoreInBetween) {
  World world(WithShape(GetParam(), 2));
  const auto first = world.Run({.prompt = Text(40, 1), .max_tokens = 1});
  EXPECT_EQ(first->progress, (std::vector<std::uint32_t>{0, 16, 32, 40}));
  const auto second = world.Run({.prompt = Text(40, 1) + Text(40, 2), .max_tokens = 1});
  EXPECT_EQ(second->progress, (std::vector<std::uint32_t>{40, 48, 64, 80}));
}

TEST_P(PrefillTest, APromptOnlyRequestWarmsThePrefix) {
  World world(WithShape(GetParam()));
  const auto warm = world.Run({.prompt = Text(40, 1), .max_tokens = 0});
  EXPECT_EQ(warm->report.finish, FinishReason::kLength);
  EXPECT_TRUE(warm->tokens.empty());
  EXPECT_EQ(world.Run({.prompt = Text(40, 1)})->report.prompt.cached_tokens, 40U);
  const auto again = world.Run({.prompt = Text(40, 1), .max_tokens = 0});
  EXPECT_EQ(again->report.prompt.evaluated_tokens, 0U);
}

TEST_P(PrefillTest, ACancelledPrefillLeavesItsFinishedChunksToTheRetry) {
  World world(WithShape(GetParam()));
  const Ask ask{.prompt = Text(100, 1)};
  const auto gone = world.Submit(ask);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(world.engine.Step());
  gone->gone = true;
  world.Drain();
  EXPECT_EQ(gone->report.finish, FinishReason::kCancelled);
  EXPECT_EQ(gone->report.prompt.evaluated_tokens, 48U);
  world.Run({.prompt = Text(60, 9), .max_tokens = 1});  // takes the lane
  EXPECT_EQ(world.Run(ask)->report.prompt.cached_tokens, 48U);
  world.ExpectIdleAndSound();
}

TEST_P(PrefillTest, AFailedChunkIsTriedAgainFromTheLastRecordedBoundary) {
  for (std::uint64_t call = 1; call <= 7; ++call) {
    WorldOptions options = WithShape(GetParam());
    options.faults.fail_decode.calls = {call};
    World world(options);
    const auto sink = world.Run({.prompt = Text(100, 1), .max_tokens = 1});
    EXPECT_EQ(sink->report.prompt.evaluated_tokens, 100U) << "call " << call;
    // Memory that cannot be cut back resumes at a snapshot, at most a chunk earlier.
    const std::uint64_t slack = world.runtime.info().shape.AnyBoundary() ? 0 : 16;
    EXPECT_GE(world.runtime.counters().tokens_evaluated, 100U) << "call " << call;
    EXPECT_LE(world.runtime.counters().tokens_evaluated, 100U + slack) << "call " << call;
    EXPECT_EQ(world.engine.Stats().recomputed_tokens,
              world.runtime.counters().tokens_evaluated - 100U);
    world.ExpectIdleAndSound();
  }
}

TEST_P(PrefillTest, APrefillThatFailsTwiceEndsWithAnErrorAndTheNextRequestIsRight) {
  WorldOptions options = WithShape(GetParam());
  options.faults.fail_decode.calls = {2, 3};
  World world(options);
  const Ask ask{.prompt = Text(100, 1)};
  const auto failed = world.Submit(ask);
  world.Drain();
  EXPECT_EQ(failed->report.finish, FinishReason::kError);
  ASSERT_TRUE(failed->report.error);
  EXPECT_EQ(world.engine.Stats().failed, 1U);
  EXPECT_EQ(world.runtime.End(SeqId{0}), 0U);
  EXPECT_EQ(world.Run(ask)->report.prompt.cached_tokens, 16U);
}

TEST_P(PrefillTest, ARetryLeavesATokenToEvaluateEvenIfTheWholePromptIsKnown) {
  World world(WithShape(GetParam()));
  Ask ask{.prompt = Text(40, 1), .max_tokens = 2};
  world.Run(ask);
  FaultPlan faults;
  faults.fail_decode.calls = {world.runtime.counters().decode_calls + 1};
  world.runtime.SetFaults(faults);
  ask.allow_decoded_result = false;
  EXPECT_GE(world.Run(ask)->report.prompt.evaluated_tokens, 1U);
  EXPECT_EQ(world.runtime.counters().faults, 1U);
}

TEST_P(PrefillTest, WhatCouldNotBeRecordedInTimeIsRecordedBeforeItsLaneIsTaken) {
  WorldOptions options = WithShape(GetParam());
  options.faults.fail_export.permille = 1000;
  World world(options);
  world.Run({.prompt = Text(20, 1), .max_tokens = 1});
  world.runtime.SetFaults({});
  world.Run({.prompt = Text(30, 2), .max_tokens = 1});
  EXPECT_EQ(world.Run({.prompt = Text(20, 1) + Text(5, 3)})->report.prompt.cached_warm, 20U);
}

TEST_P(PrefillTest, FailedExportsCostReuseAndNothingElse) {
  WorldOptions options = WithShape(GetParam());
  options.faults.fail_export.permille = 1000;
  World world(options);
  const Ask ask{.prompt = Text(100, 1)};
  world.Run(ask);
  EXPECT_GT(world.engine.Stats().records_failed, 0U);
  EXPECT_EQ(world.cache.Stats().blocks, 0U);
  world.Run({.prompt = Text(30, 2)});
  EXPECT_EQ(world.Run(ask)->report.prompt.cached_tokens, 0U);
  world.ExpectIdleAndSound();
}

TEST_P(PrefillTest, ARowWhoseExportFailedIsRecordedWithTheNextChunk) {
  WorldOptions options = WithShape(GetParam());
  options.faults.fail_export.calls = {1};
  World world(options);
  const Ask ask{.prompt = Text(100, 1), .max_tokens = 1};
  world.Run(ask);
  EXPECT_EQ(world.engine.Stats().records_failed, 1U);
  world.Run({.prompt = Text(30, 2), .max_tokens = 1});
  EXPECT_EQ(world.Run(ask)->report.prompt.cached_tokens, 100U);
}

TEST_P(PrefillTest, LogitsThatAreNoNumbersAfterARestoreAreRedoneColdOnce) {
  WorldOptions options = WithShape(GetParam());
  World world(options);
  world.Run({.prompt = Text(40, 1), .max_tokens = 1});
  world.Run({.prompt = Text(40, 2), .max_tokens = 1});
  FaultPlan faults;
  faults.nan_decode.calls = {world.runtime.counters().decode_calls + 1};
  world.runtime.SetFaults(faults);
  const auto redone = world.Run({.prompt = Text(40, 1) + Text(5, 3), .max_tokens = 3});
  EXPECT_EQ(redone->report.prompt.cached_tokens, 0U);
  EXPECT_EQ(redone->report.prompt.evaluated_tokens, 45U);
  EXPECT_GT(world.cache.Stats().condemned, 0U);
  world.ExpectIdleAndSound();
}

TEST_P(PrefillTest, LogitsThatAreNoNumbersInAColdRunAreAnErrorAndAreNotKept) {
  WorldOptions options = WithShape(GetParam());
  options.faults.nan_decode.permille = 1000;
  World world(options);
  const Ask ask{.prompt = Text(40, 1)};
  const auto failed = world.Submit(ask);
  world.Drain();
  EXPECT_EQ(failed->report.finish, FinishReason::kError);
  EXPECT_TRUE(failed->tokens.empty());
  world.runtime.SetFaults({});
  EXPECT_EQ(world.Run(ask)->report.prompt.cached_tokens, 0U);
}

TEST_P(PrefillTest, ABranchAtAMessageStartResumesExactlyThere) {
  WorldOptions options = WithShape(GetParam());
  options.engine.snapshot_spacing = 0;
  World world(options);
  const std::vector<Token> shared = Text(37, 1);
  world.Run({.prompt = shared + Text(30, 2), .max_tokens = 1, .message_starts = {0, 20, 37}});
  const auto branch = world.Run({.prompt = shared + Text(25, 3), .message_starts = {0, 20, 37}});
  EXPECT_EQ(branch->report.prompt.cached_tokens, 37U);
}

TEST_P(PrefillTest, UnsortedMessageStartsBehindThePromptDoNoHarm) {
  World world(WithShape(GetParam()));
  world.Run({.prompt = Text(40, 1), .message_starts = {4'000'000'000U, 37, 3, 3, 41, 0, 40}});
  world.ExpectIdleAndSound();
}

TEST_P(PrefillTest, TwoPrefillsTakeTurnsAndTheShorterOneIsDoneFirst) {
  World world(WithShape(GetParam(), 2));
  const auto longer = world.Submit({.prompt = Text(160, 1), .max_tokens = 1});
  const auto shorter = world.Submit({.prompt = Text(32, 2), .max_tokens = 1});
  for (int i = 0; i < 4; ++i) world.engine.Step();
  EXPECT_TRUE(shorter->finished);
  EXPECT_FALSE(longer->finished);
  EXPECT_EQ(longer->progress.back(), 32U);
  world.Drain();
  EXPECT_TRUE(longer->finished);
}

TEST_P(PrefillTest, ALongPrefillDelaysTheOthersTokensByOneChunk) {
  World world(WithShape(GetParam(), 2));
  const auto talking = world.Submit({.prompt = Text(16, 1), .max_tokens = 30});
  world.engine.Step();
  const auto longer = world.Submit({.prompt = Text(160, 2), .max_tokens = 1});
  for (std::uint32_t chunk = 1; chunk <= 10; ++chunk) {
    const std::size_t before = talking->tokens.size();
    world.engine.Step();
    EXPECT_EQ(talking->tokens.size(), before + 1);
    EXPECT_EQ(longer->progress.back(), chunk * 16);
  }
  world.Drain();
}

class BitExactTest : public testing::TestWithParam<ShapeKind> {
 protected:
  static WorldOptions Options(std::uint32_t lanes = 1) {
    WorldOptions world;
    world.fake.shape = GetParam();
    world.fake.lanes = lanes;
    world.fake.shape_noise = true;
    world.engine.exactness = Exactness::kBit;
    world.engine.snapshot_spacing = 16;
    return world;
  }
};
INSTANTIATE_TEST_SUITE_P(Shapes, BitExactTest, testing::ValuesIn(AllShapes()), ShapeTestName);

// World::Run compares all logits with memcmp in this setting.
TEST_P(BitExactTest, LogitsOfEveryTurnEqualThoseOfAColdRunBitForBit) {
  World world(Options());
  std::vector<Token> a = Text(40, 1);
  std::vector<Token> b = Text(64, 2);
  for (std::uint64_t turn = 0; turn < 3; ++turn) {
    for (std::vector<Token>* text : {&a, &b}) {
      const Ask ask{.prompt = *text, .max_tokens = 5};
      const auto answer = world.Run(ask);
      world.Run(ask);
      *text = *text + answer->tokens + Text(20, 100 + turn);
    }
  }
  EXPECT_GT(world.engine.Stats().cached_warm_tokens, 0U);
  world.ExpectIdleAndSound();
}

TEST_P(BitExactTest, OnlyWholeChunksOnTheGridAreReused) {
  World world(Options());
  world.Run({.prompt = Text(40, 1), .max_tokens = 1});
  world.Run({.prompt = Text(40, 2), .max_tokens = 1});
  EXPECT_EQ(world.Run({.prompt = Text(40, 1) + Text(9, 3)})->report.prompt.cached_tokens, 32U);
}

TEST_P(BitExactTest, AnswersAreNotRecordedBecauseTheyCouldNotBeRestored) {
  World world(Options());
  world.Run({.prompt = Text(32, 1), .max_tokens = 40});
  EXPECT_EQ(world.cache.Stats().known_tokens, 32U);
}

TEST_P(BitExactTest, LanesDecodeAlone) {
  World world(Options(2));
  const Ask one{.prompt = Text(40, 1), .max_tokens = 8};
  const Ask two{.prompt = Text(48, 2), .max_tokens = 8};
  const auto first = world.Submit(one);
  const auto second = world.Submit(two);
  world.Drain();
  world.ExpectColdAnswer(one, *first);
  world.ExpectColdAnswer(two, *second);
  EXPECT_EQ(world.runtime.counters().largest_batch, 1U);
}

}  // namespace
}  // namespace skippy::engine
