// Requests that arrive together and share a prefix compute it once.
#include <gtest/gtest.h>

#include "engine/engine_testing.h"

namespace skippy::engine {
namespace {

WorldOptions WithShape(ShapeKind shape, std::uint32_t lanes = 4) {
  WorldOptions world;
  world.fake.shape = shape;
  world.fake.lanes = lanes;
  world.engine.snapshot_spacing = 16;
  return world;
}

std::vector<std::shared_ptr<TestSink>> RunTogether(World& world, const std::vector<Ask>& asks) {
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (const Ask& ask : asks) sinks.push_back(world.Submit(ask));
  world.Drain();
  for (std::size_t i = 0; i < asks.size(); ++i) world.ExpectColdAnswer(asks[i], *sinks[i]);
  world.ExpectIdleAndSound();
  return sinks;
}

class SharingTest : public testing::TestWithParam<ShapeKind> {};
INSTANTIATE_TEST_SUITE_P(Shapes, SharingTest, testing::ValuesIn(AllShapes()), ShapeTestName);

TEST_P(SharingTest, IdenticalPromptsTogetherAreEvaluatedOnce) {
  for (const std::size_t length : {std::size_t{5}, std::size_t{16}, std::size_t{100}}) {
    World world(WithShape(GetParam()));
    RunTogether(world, std::vector<Ask>(6, Ask{.prompt = Text(length, 1), .max_tokens = 5}));
    EXPECT_EQ(world.engine.Stats().evaluated_tokens, length);
  }
}

TEST_P(SharingTest, TwelveQuestionsOnOneDocumentEvaluateItOnce) {
  World world(WithShape(GetParam()));
  const std::vector<Token> document = Text(123, 1);
  std::vector<Ask> asks;
  for (std::uint64_t i = 0; i < 12; ++i) {
    // Each question begins with another token, so the document alone is shared.
    std::vector<Token> question = Text(9, 10 + i);
    question[0] = static_cast<Token>(i);
    asks.push_back({.prompt = document + question, .max_tokens = 3});
  }
  RunTogether(world, asks);
  EXPECT_EQ(world.engine.Stats().evaluated_tokens, 123U + 12U * 9U);
  EXPECT_GT(world.engine.Stats().shared_prefill_waits, 0U);
}

TEST_P(SharingTest, WithoutSharingEachFirstComerEvaluatesTheDocument) {
  WorldOptions options = WithShape(GetParam());
  options.engine.share_prefill = false;
  World world(options);
  RunTogether(world, std::vector<Ask>(4, Ask{.prompt = Text(100, 1), .max_tokens = 1}));
  EXPECT_EQ(world.engine.Stats().evaluated_tokens, 400U);
}

TEST_P(SharingTest, APromptThatIsThePrefixOfARunningOneWaitsForIt) {
  World world(WithShape(GetParam()));
  const std::vector<Token> prompt = Text(100, 1);
  RunTogether(world, {{.prompt = prompt},
                      {.prompt = {prompt.begin(), prompt.begin() + 60}},
                      {.prompt = {prompt.begin(), prompt.begin() + 30}}});
  EXPECT_EQ(world.engine.Stats().evaluated_tokens, 102U);
}

TEST_P(SharingTest, FollowersGoOnWhenTheirLeaderIsCancelled) {
  World world(WithShape(GetParam()));
  const std::vector<Ask> asks(3, Ask{.prompt = Text(100, 1), .max_tokens = 3});
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (const Ask& ask : asks) sinks.push_back(world.Submit(ask));
  for (int i = 0; i < 2; ++i) world.engine.Step();
  sinks[0]->gone = true;
  world.Drain();
  EXPECT_EQ(sinks[0]->report.finish, FinishReason::kCancelled);
  world.ExpectColdAnswer(asks[1], *sinks[1]);
  world.ExpectColdAnswer(asks[2], *sinks[2]);
  EXPECT_EQ(world.engine.Stats().evaluated_tokens, 100U);
  world.ExpectIdleAndSound();
}

TEST_P(SharingTest, FollowersGoOnWhenTheirLeaderFails) {
  WorldOptions options = WithShape(GetParam());
  options.faults.fail_decode.calls = {3, 4};
  World world(options);
  const std::vector<Ask> asks(3, Ask{.prompt = Text(100, 1), .max_tokens = 3});
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (const Ask& ask : asks) sinks.push_back(world.Submit(ask));
  world.Drain();
  EXPECT_EQ(sinks[0]->report.finish, FinishReason::kError);
  world.ExpectColdAnswer(asks[1], *sinks[1]);
  world.ExpectColdAnswer(asks[2], *sinks[2]);
  world.ExpectIdleAndSound();
}

TEST_P(SharingTest, FollowersGoOnWhenNothingCanBeRecorded) {
  WorldOptions options = WithShape(GetParam());
  options.max_bytes = 64;
  World world(options);
  RunTogether(world, std::vector<Ask>(3, Ask{.prompt = Text(100, 1), .max_tokens = 3}));
}

TEST_P(SharingTest, AWaitingFollowerDoesNotBlockOthers) {
  World world(WithShape(GetParam(), 2));
  const Ask leader{.prompt = Text(160, 1), .max_tokens = 1};
  world.Submit(leader);
  world.Submit(leader);
  const auto other = world.Submit({.prompt = Text(16, 2), .max_tokens = 1});
  for (int i = 0; i < 3; ++i) world.engine.Step();
  EXPECT_TRUE(other->finished);
  world.Drain();
}

TEST_P(SharingTest, AFollowerThatGoesAwayCostsNothing) {
  World world(WithShape(GetParam()));
  const auto leader = world.Submit({.prompt = Text(100, 1), .max_tokens = 1});
  const auto follower = world.Submit({.prompt = Text(100, 1), .max_tokens = 1});
  world.engine.Step();
  follower->gone = true;
  world.engine.Step();
  EXPECT_TRUE(follower->finished);
  EXPECT_EQ(follower->report.prompt.evaluated_tokens, 0U);
  world.Drain();
  EXPECT_TRUE(leader->finished);
}

TEST_P(SharingTest, AFollowerStartsAsSoonAsItsLeaderHasPassedTheirCommonBoundary) {
  World world(WithShape(GetParam()));
  const std::vector<Token> shared = Text(32, 1);
  const Ask leader{.prompt = shared + Text(160, 2), .max_tokens = 1};
  const Ask follower{.prompt = shared + Text(10, 3), .max_tokens = 1};
  const auto longer = world.Submit(leader);
  const auto shorter = world.Submit(follower);
  for (int i = 0; i < 6; ++i) world.engine.Step();
  EXPECT_TRUE(shorter->finished);
  EXPECT_FALSE(longer->finished);
  EXPECT_EQ(shorter->report.prompt.cached_tokens, 32U);
  world.Drain();
  world.ExpectColdAnswer(leader, *longer);
  world.ExpectColdAnswer(follower, *shorter);
}

TEST_P(SharingTest, AFollowerThatPartsWhereItsLeaderStandsStartsFromThere) {
  WorldOptions options = WithShape(GetParam());
  options.engine.snapshot_spacing = 128;  // no snapshot of the leader's own there
  World world(options);
  const std::vector<Token> shared = Text(16, 1);
  const Ask leader{.prompt = shared + Text(60, 2), .max_tokens = 1};
  const Ask follower{.prompt = shared + Text(20, 3), .max_tokens = 1};
  const auto first = world.Submit(leader);
  world.engine.Step();
  const auto second = world.Submit(follower);
  world.Drain();
  world.ExpectColdAnswer(leader, *first);
  world.ExpectColdAnswer(follower, *second);
  EXPECT_EQ(second->report.prompt.cached_tokens, 16U);
}

TEST_P(SharingTest, OtherTenantsDoNotWaitForEachOther) {
  World world(WithShape(GetParam()));
  RunTogether(world, {{.prompt = Text(100, 1), .max_tokens = 1, .salt = "a"},
                      {.prompt = Text(100, 1), .max_tokens = 1, .salt = "b"}});
  EXPECT_EQ(world.engine.Stats().evaluated_tokens, 200U);
  EXPECT_EQ(world.engine.Stats().shared_prefill_waits, 0U);
}

TEST_P(SharingTest, BitExactFollowersShareWholeChunks) {
  WorldOptions options = WithShape(GetParam());
  options.fake.shape_noise = true;
  options.engine.exactness = Exactness::kBit;
  World world(options);
  RunTogether(world, {{.prompt = Text(100, 1) + Text(20, 2), .max_tokens = 3},
                      {.prompt = Text(100, 1) + Text(20, 3), .max_tokens = 3},
                      {.prompt = Text(100, 1) + Text(20, 4), .max_tokens = 3}});
  EXPECT_EQ(world.engine.Stats().evaluated_tokens, 120U + 2U * 24U);
}

}  // namespace
}  // namespace skippy::engine
