// Answers: how they end, who shares a pass, what they leave behind, and faults in the middle.
#include <gtest/gtest.h>

#include "engine/engine_testing.h"

namespace skippy::engine {
namespace {

WorldOptions WithShape(ShapeKind shape, std::uint32_t lanes = 2) {
  WorldOptions world;
  world.fake.shape = shape;
  world.fake.lanes = lanes;
  world.engine.snapshot_spacing = 16;
  return world;
}

class GenerationTest : public testing::TestWithParam<ShapeKind> {};
INSTANTIATE_TEST_SUITE_P(Shapes, GenerationTest, testing::ValuesIn(AllShapes()), ShapeTestName);

TEST_P(GenerationTest, TheSinkEndsAnAnswer) {
  World world(WithShape(GetParam()));
  const auto sink = world.Submit({.prompt = Text(20, 1), .max_tokens = 50});
  sink->stop_after = 3;
  world.Drain();
  EXPECT_EQ(sink->tokens.size(), 3U);
  EXPECT_EQ(sink->report.finish, FinishReason::kStop);
  // The last sampled token is not evaluated.
  EXPECT_EQ(world.runtime.End(SeqId{0}), 22U);
}

TEST_P(GenerationTest, MaxTokensEndsAnAnswer) {
  World world(WithShape(GetParam()));
  const auto sink = world.Run({.prompt = Text(20, 1), .max_tokens = 7});
  EXPECT_EQ(sink->tokens.size(), 7U);
  EXPECT_EQ(sink->report.finish, FinishReason::kLength);
}

TEST_P(GenerationTest, AFullContextEndsAnAnswerAndTheNextRequestIsServed) {
  WorldOptions options = WithShape(GetParam());
  options.fake.context = 48;
  World world(options);
  const Ask ask{.prompt = Text(40, 1), .max_tokens = 100};
  const auto sink = world.Run(ask);
  EXPECT_EQ(sink->report.finish, FinishReason::kLength);
  EXPECT_EQ(sink->tokens.size(), 9U);  // eight evaluated, and one sampled from the last of them
  EXPECT_EQ(world.Run(ask)->report.prompt.cached_tokens, 40U);
  const auto whole = world.Run({.prompt = Text(48, 2), .max_tokens = 100});
  EXPECT_EQ(whole->tokens.size(), 1U);
}

TEST_P(GenerationTest, GeneratingLanesShareAPass) {
  World world(WithShape(GetParam(), 3));
  const std::vector<Ask> asks = {{.prompt = Text(10, 1), .max_tokens = 12},
                                 {.prompt = Text(11, 2), .max_tokens = 12, .sampler_seed = 5},
                                 {.prompt = Text(12, 3), .max_tokens = 12}};
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (const Ask& ask : asks) sinks.push_back(world.Submit(ask));
  world.Drain();
  for (std::size_t i = 0; i < asks.size(); ++i) world.ExpectColdAnswer(asks[i], *sinks[i]);
  EXPECT_EQ(world.runtime.counters().largest_batch, 3U);
}

TEST_P(GenerationTest, RequestsWithOtherAdaptersNeverShareAPass) {
  World world(WithShape(GetParam(), 3));
  const std::vector<Ask> asks = {{.prompt = Text(10, 1), .max_tokens = 12, .adapters = {{0, 1.0F}}},
                                 {.prompt = Text(10, 1), .max_tokens = 12, .adapters = {{1, 1.0F}}},
                                 {.prompt = Text(10, 1), .max_tokens = 12}};
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (const Ask& ask : asks) sinks.push_back(world.Submit(ask));
  world.Drain();
  for (std::size_t i = 0; i < asks.size(); ++i) world.ExpectColdAnswer(asks[i], *sinks[i]);
  EXPECT_EQ(world.runtime.counters().largest_batch, 1U);
}

TEST_P(GenerationTest, ALongAnswerIsReusableToItsLastEvaluatedToken) {
  WorldOptions options = WithShape(GetParam(), 1);
  options.page_tokens = 128;  // longer than the window's ring: a full page would come too late
  World world(options);
  const Ask ask{.prompt = Text(20, 1), .max_tokens = 100};
  const auto answer = world.Run(ask);
  world.Run({.prompt = Text(30, 2), .max_tokens = 1});
  const auto next = world.Run({.prompt = ask.prompt + answer->tokens + Text(6, 3)});
  EXPECT_EQ(next->report.prompt.cached_warm, 119U);
  world.ExpectIdleAndSound();
}

TEST_P(GenerationTest, ACancelledAnswerStopsWithinAStepAndIsReusable) {
  World world(WithShape(GetParam(), 1));
  const Ask ask{.prompt = Text(20, 1), .max_tokens = 100};
  const auto sink = world.Submit(ask);
  while (sink->tokens.size() < 10) world.engine.Step();
  world.engine.Cancel(world.last_id);
  world.engine.Step();
  EXPECT_TRUE(sink->finished);
  EXPECT_EQ(sink->tokens.size(), 10U);
  EXPECT_EQ(sink->report.finish, FinishReason::kCancelled);
  EXPECT_EQ(sink->report.prompt.evaluated_tokens, 20U);
  const auto next = world.Run({.prompt = ask.prompt + sink->tokens + Text(6, 3)});
  EXPECT_EQ(next->report.prompt.cached_tokens, 29U);
}

TEST_P(GenerationTest, ASamplerThatFailsFailsItsRequestAlone) {
  class Broken final : public runtime::Sampler {
   public:
    Result<Token> Sample(std::span<const float>) override {
      return Err(ErrorCode::kInternal, "grammar stuck");
    }
    void Accept(Token) override {}
  };
  World world(WithShape(GetParam()));
  const Ask good{.prompt = Text(20, 1), .max_tokens = 9};
  const auto fine = world.Submit(good);
  auto sink = std::make_shared<TestSink>();
  GenerateRequest request = world.Request({.prompt = Text(20, 2)}, sink);
  request.sampler = std::make_unique<Broken>();
  ASSERT_TRUE(world.engine.Submit(std::move(request)));
  world.Drain();
  EXPECT_EQ(sink->report.finish, FinishReason::kError);
  ASSERT_TRUE(sink->report.error);
  EXPECT_EQ(sink->report.error->message, "grammar stuck");
  world.ExpectColdAnswer(good, *fine);
}

// The nth forward pass fails, once and then for good, for every n until nothing fails any more.
// Whoever ends without an error has the cold run's answer; the engine is sound afterwards and
// serves everybody.
TEST_P(GenerationTest, WhicheverPassFailsNobodyGetsAWrongToken) {
  const std::vector<Ask> asks = {{.prompt = Text(40, 1), .max_tokens = 10},
                                 {.prompt = Text(24, 2), .max_tokens = 14, .sampler_seed = 3},
                                 {.prompt = Text(40, 1) + Text(10, 3), .max_tokens = 6}};
  for (const bool for_good : {false, true}) {
    for (std::uint64_t n = 1;; ++n) {
      WorldOptions options = WithShape(GetParam());
      for (std::uint64_t call = n; call <= (for_good ? n + 200 : n); ++call) {
        options.faults.fail_decode.calls.insert(call);
      }
      World world(options);
      std::vector<std::shared_ptr<TestSink>> sinks;
      for (const Ask& ask : asks) sinks.push_back(world.Submit(ask));
      world.Drain();
      for (std::size_t i = 0; i < asks.size(); ++i) {
        ASSERT_TRUE(sinks[i]->finished);
        if (sinks[i]->report.finish != FinishReason::kError)
          world.ExpectColdAnswer(asks[i], *sinks[i]);
      }
      const bool fired = world.runtime.counters().faults > 0;
      world.runtime.SetFaults({});
      for (const Ask& ask : asks) world.Run(ask);
      world.ExpectIdleAndSound();
      if (!fired) break;
    }
  }
}

TEST_P(GenerationTest, WhenASharedPassFailsOnceNobodyFails) {
  WorldOptions options = WithShape(GetParam());
  options.faults.fail_decode.calls = {6};
  World world(options);
  const std::vector<Ask> asks = {{.prompt = Text(10, 1), .max_tokens = 12},
                                 {.prompt = Text(11, 2), .max_tokens = 12}};
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (const Ask& ask : asks) sinks.push_back(world.Submit(ask));
  world.Drain();
  EXPECT_EQ(world.runtime.counters().faults, 1U);
  EXPECT_EQ(world.runtime.counters().largest_batch, 2U);
  for (std::size_t i = 0; i < asks.size(); ++i) world.ExpectColdAnswer(asks[i], *sinks[i]);
  EXPECT_EQ(world.engine.Stats().failed, 0U);
}

TEST_P(GenerationTest, LogitsThatAreNoNumbersInARestoredAnswerAreRedoneCold) {
  World world(WithShape(GetParam(), 1));
  const Ask ask{.prompt = Text(40, 1), .max_tokens = 8};
  world.Run(ask);
  world.Run({.prompt = Text(40, 2), .max_tokens = 1});
  FaultPlan faults;
  faults.nan_decode.calls = {world.runtime.counters().decode_calls + 3};
  world.runtime.SetFaults(faults);
  world.Run(ask);
  EXPECT_EQ(world.runtime.counters().faults, 1U);
  EXPECT_GT(world.cache.Stats().condemned, 0U);
  world.ExpectIdleAndSound();
}

TEST_P(GenerationTest, NothingOfAnAnswerThatTurnedIntoNoNumbersIsKept) {
  World world(WithShape(GetParam(), 1));
  FaultPlan faults;
  faults.nan_decode.calls = {40};
  world.runtime.SetFaults(faults);
  const auto sink = world.Submit({.prompt = Text(20, 1), .max_tokens = 100});
  world.Drain();
  EXPECT_EQ(sink->report.finish, FinishReason::kError);
  EXPECT_EQ(sink->tokens.size(), 38U);
  EXPECT_EQ(world.engine.Peek(Text(20, 1) + sink->tokens, "", {})->boundary, 0U);
  EXPECT_EQ(world.runtime.End(SeqId{0}), 0U);
  EXPECT_EQ(world.cache.Stats().logits, 0U);
}

TEST_P(GenerationTest, AnIdleLaneWithTheSameTextIsNotTrustedEither) {
  World world(WithShape(GetParam()));
  const Ask ask{.prompt = Text(20, 1), .max_tokens = 6};
  const auto first = world.Submit(ask);
  world.Submit({.prompt = Text(20, 1) + Text(9, 3), .max_tokens = 2});
  world.Drain();
  const std::vector<Token> turn = ask.prompt + first->tokens + Text(5, 2);
  const auto in_lane = [&](std::uint32_t lane) {
    return world.engine.Lanes()[lane].resident_tokens > 0;
  };
  ASSERT_TRUE(in_lane(0) && in_lane(1));
  FaultPlan faults;
  faults.nan_decode.calls = {world.runtime.counters().decode_calls + 1};
  world.runtime.SetFaults(faults);
  world.Run({.prompt = turn, .max_tokens = 2});
  EXPECT_NE(in_lane(0), in_lane(1));
}

}  // namespace
}  // namespace skippy::engine
