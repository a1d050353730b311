// Work ahead while nothing else is to do: it saves the next turn its prefill and costs no request
// anything.
#include <gtest/gtest.h>

#include "engine/engine_testing.h"

namespace skippy::engine {
namespace {

WorldOptions WithShape(ShapeKind shape, std::uint32_t lanes = 2) {
  WorldOptions world;
  world.fake.shape = shape;
  world.fake.lanes = lanes;
  return world;
}

Ask Idle(std::vector<Token> prompt) {
  return {.prompt = std::move(prompt), .max_tokens = 0, .idle = true};
}

class IdleTest : public testing::TestWithParam<ShapeKind> {};
INSTANTIATE_TEST_SUITE_P(Shapes, IdleTest, testing::ValuesIn(AllShapes()), ShapeTestName);

TEST_P(IdleTest, TheNextTurnFindsWhatWasEvaluatedAhead) {
  for (const Exactness exactness : {Exactness::kToken, Exactness::kBit}) {
    WorldOptions options = WithShape(GetParam());
    options.engine.exactness = exactness;
    World world(options);
    const std::vector<Token> past = Text(96, 1);  // whole chunks: usable in either setting
    const auto idle = world.Submit(Idle(past));
    world.Drain();
    EXPECT_TRUE(idle->finished);
    EXPECT_EQ(idle->report.prompt.evaluated_tokens, 96U);
    const auto turn = world.Run({.prompt = past + Text(7, 2)});
    EXPECT_EQ(turn->report.prompt.cached_tokens, 96U);
    world.ExpectIdleAndSound();
  }
}

TEST_P(IdleTest, ARequestEndsItWithinAChunkAndKeepsWhatItDid) {
  World world(WithShape(GetParam(), 1));
  const std::vector<Token> past = Text(160, 1);
  const auto idle = world.Submit(Idle(past));
  world.engine.Step();
  world.engine.Step();
  ASSERT_FALSE(idle->finished);
  const Ask ask{.prompt = Text(20, 9), .max_tokens = 2};
  const auto request = world.Submit(ask);
  world.engine.Step();
  EXPECT_TRUE(idle->finished);
  EXPECT_EQ(idle->report.finish, FinishReason::kCancelled);
  EXPECT_FALSE(request->progress.empty()) << "admitted in the same round";
  world.Drain();
  world.ExpectColdAnswer(ask, *request);
  const auto turn = world.Run({.prompt = past + Text(7, 2)});
  EXPECT_EQ(turn->report.prompt.cached_tokens, 2 * world.runtime.info().chunk);
}

TEST_P(IdleTest, ItWaitsWhileARequestRuns) {
  World world(WithShape(GetParam()));
  const auto request = world.Submit({.prompt = Text(40, 1), .max_tokens = 10});
  world.engine.Step();
  const auto idle = world.Submit(Idle(Text(40, 2)));
  while (!request->finished) {
    EXPECT_TRUE(idle->progress.empty());
    ASSERT_TRUE(world.engine.Step());
  }
  world.Drain();
  EXPECT_TRUE(idle->finished);
  EXPECT_EQ(idle->report.finish, FinishReason::kLength);
}

TEST_P(IdleTest, PiecesRunOneAfterTheOther) {
  World world(WithShape(GetParam()));
  const auto first = world.Submit(Idle(Text(80, 1)));
  const auto second = world.Submit(Idle(Text(80, 2)));
  while (!first->finished) {
    EXPECT_TRUE(second->progress.empty());
    ASSERT_TRUE(world.engine.Step());
  }
  world.Drain();
  EXPECT_TRUE(second->finished);
}

TEST_P(IdleTest, ItIsNoRequest) {
  WorldOptions options = WithShape(GetParam());
  options.engine.max_queue = 1;
  World world(options);
  const auto request = world.Submit({.prompt = Text(8, 3), .max_tokens = 1});  // the queue is full
  const auto idle = world.Submit(Idle(Text(40, 1)));
  EXPECT_EQ(world.engine.Stats().queued, 1U);
  EXPECT_EQ(world.engine.Stats().requests, 1U);
  world.Drain();
  const EngineStats stats = world.engine.Stats();
  EXPECT_EQ(stats.finished, 1U);
  EXPECT_EQ(stats.prompt_tokens, 8U);
  EXPECT_EQ(stats.evaluated_tokens, 8U);
  EXPECT_EQ(stats.recomputed_tokens, 0U);
  EXPECT_EQ(stats.idle_runs, 1U);
  EXPECT_EQ(stats.idle_evaluated_tokens, 40U);
}

TEST_P(IdleTest, ItsQueueIsShortAndNotThatOfTheRequests) {
  World world(WithShape(GetParam()));
  for (std::uint64_t i = 0; i < 8; ++i) world.Submit(Idle(Text(8, i)));
  EXPECT_FALSE(world.engine.Submit(world.Request(Idle(Text(8, 99)), std::make_shared<TestSink>())));
  const auto request = world.Submit({.prompt = Text(8, 3), .max_tokens = 1});
  world.Drain();
  EXPECT_TRUE(request->finished);
  EXPECT_EQ(world.engine.Stats().idle_runs, 8U);
  EXPECT_EQ(world.engine.Stats().rejected, 0U);
}

TEST_P(IdleTest, ItGeneratesNothing) {
  World world(WithShape(GetParam()));
  Ask ask = Idle(Text(8, 1));
  ask.max_tokens = 1;
  EXPECT_FALSE(world.engine.Submit(world.Request(ask, std::make_shared<TestSink>())));
}

}  // namespace
}  // namespace skippy::engine
