// What a request finds when it arrives: decoded result, hot lane, restored prefix, or nothing.
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

class AdmissionTest : public testing::TestWithParam<ShapeKind> {};
INSTANTIATE_TEST_SUITE_P(Shapes, AdmissionTest, testing::ValuesIn(AllShapes()), ShapeTestName);

TEST_P(AdmissionTest, TheFirstRequestIsEvaluatedWhole) {
  World world(WithShape(GetParam()));
  const auto sink = world.Run({.prompt = Text(40, 1)});
  EXPECT_EQ(sink->report.prompt.evaluated_tokens, 40U);
  EXPECT_EQ(sink->report.prompt.hit_kind, HitKind::kNone);
  EXPECT_EQ(sink->report.prompt.miss_reason, MissReason::kNeverSeen);
  world.ExpectIdleAndSound();
}

TEST_P(AdmissionTest, AnExactRepeatOfOneTokenNeedsNoForwardPassAndNoImport) {
  World world(WithShape(GetParam()));
  const Ask ask{.prompt = Text(40, 1), .max_tokens = 1};
  world.Run(ask);
  const std::uint64_t passes = world.runtime.counters().decode_calls;
  const auto repeat = world.Run(ask);
  EXPECT_EQ(world.runtime.counters().decode_calls, passes);
  EXPECT_EQ(world.runtime.counters().imports, 0U);
  EXPECT_EQ(repeat->report.prompt.hit_kind, HitKind::kDecodedResult);
  EXPECT_EQ(repeat->report.prompt.cached_tokens, 40U);
  EXPECT_EQ(repeat->report.prompt.evaluated_tokens, 0U);
}

TEST_P(AdmissionTest, AClientThatStopsAtTheFirstTokenOfARepeatCausesNoImport) {
  World world(WithShape(GetParam()));
  world.Run({.prompt = Text(40, 1), .max_tokens = 1});
  world.Run({.prompt = Text(30, 2), .max_tokens = 1});
  const auto repeat = world.Submit({.prompt = Text(40, 1), .max_tokens = 50});
  repeat->stop_after = 1;
  world.Drain();
  EXPECT_EQ(repeat->report.finish, FinishReason::kStop);
  EXPECT_EQ(repeat->report.prompt.cached_tokens, 40U);
  EXPECT_EQ(world.runtime.counters().imports, 0U);
}

TEST_P(AdmissionTest, ARepeatWithMoreTokensOrAnotherSeedIsTheColdRun) {
  World world(WithShape(GetParam()));
  world.Run({.prompt = Text(40, 1), .max_tokens = 5});
  world.Run({.prompt = Text(33, 2), .max_tokens = 5});  // takes the only lane
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{4}}) {
    const auto repeat = world.Run({.prompt = Text(40, 1), .max_tokens = 9, .sampler_seed = seed});
    EXPECT_EQ(repeat->report.prompt.cached_tokens, 40U);
  }
  world.ExpectIdleAndSound();
}

TEST_P(AdmissionTest, ADecodedResultLeavesTheLaneItDoesNotNeedAlone) {
  World world(WithShape(GetParam()));
  const Ask ask{.prompt = Text(40, 1), .max_tokens = 1};
  world.Run(ask);
  const Ask other{.prompt = Text(30, 2), .max_tokens = 3};
  const auto first_turn = world.Run(other);
  world.Run(ask);  // served from the stored logits: the other conversation stays in its lane
  const auto second_turn =
      world.Run({.prompt = other.prompt + first_turn->tokens + Text(5, 3), .max_tokens = 3});
  EXPECT_EQ(second_turn->report.prompt.hit_kind, HitKind::kHot);
  EXPECT_EQ(world.runtime.counters().imports, 0U);
}

TEST_P(AdmissionTest, TheNextTurnGoesOnInItsLane) {
  World world(WithShape(GetParam(), 2));
  const Ask first{.prompt = Text(40, 1), .max_tokens = 6};
  const auto answer = world.Run(first);
  const auto next =
      world.Run({.prompt = first.prompt + answer->tokens + Text(7, 2), .max_tokens = 6});
  // The last sampled token was never evaluated.
  EXPECT_EQ(next->report.prompt.cached_tokens, 45U);
  EXPECT_EQ(next->report.prompt.cached_hot, 45U);
  EXPECT_EQ(next->report.prompt.hit_kind, HitKind::kHot);
  EXPECT_EQ(next->report.prompt.miss_reason, MissReason::kNone);
  EXPECT_EQ(world.runtime.counters().imports, 0U);
  EXPECT_EQ(next->report.lane, answer->report.lane);
}

TEST_P(AdmissionTest, TheNextTurnIsRestoredWhenItsLaneWasTaken) {
  World world(WithShape(GetParam()));
  const Ask first{.prompt = Text(40, 1), .max_tokens = 6};
  const auto answer = world.Run(first);
  world.Run({.prompt = Text(50, 2), .max_tokens = 6});
  const auto next =
      world.Run({.prompt = first.prompt + answer->tokens + Text(7, 3), .max_tokens = 6});
  EXPECT_EQ(next->report.prompt.cached_warm, 45U);
  EXPECT_EQ(next->report.prompt.hit_kind, HitKind::kWarm);
  EXPECT_EQ(world.runtime.counters().imports, 1U);
  world.ExpectIdleAndSound();
}

TEST_P(AdmissionTest, AlternatingConversationsEvaluateOnlyTheirNewTokens) {
  World world(WithShape(GetParam()));
  std::vector<Token> a = Text(40, 1);
  std::vector<Token> b = Text(45, 2);
  for (std::uint64_t turn = 0; turn < 4; ++turn) {
    for (std::vector<Token>* text : {&a, &b}) {
      const auto answer = world.Run({.prompt = *text, .max_tokens = 5});
      if (turn > 0) {
        EXPECT_EQ(answer->report.prompt.evaluated_tokens, 9U);
      }
      *text = *text + answer->tokens + Text(8, 100 + turn);
    }
  }
}

TEST_P(AdmissionTest, AnotherTenantAndOtherAdaptersFindNothing) {
  World world(WithShape(GetParam(), 2));
  Ask ask{.prompt = Text(40, 1), .salt = "tenant a"};
  world.Run(ask);
  ask.salt = "tenant b";
  EXPECT_EQ(world.Run(ask)->report.prompt.cached_tokens, 0U);
  ask.adapters = {{0, 1.0F}};
  EXPECT_EQ(world.Run(ask)->report.prompt.cached_tokens, 0U);
  ask.adapters = {{0, 0.5F}};
  EXPECT_EQ(world.Run(ask)->report.prompt.cached_tokens, 0U);
  ask.adapters = {{1, 0.5F}};
  EXPECT_EQ(world.Run(ask)->report.prompt.cached_tokens, 0U);
  ask.adapters = {{0, 0.5F}};
  EXPECT_EQ(world.Run(ask)->report.prompt.cached_tokens, 40U);
  ask.adapters = {{1, 0.0F}};  // a zero scale is no adapter
  EXPECT_EQ(world.Run(ask)->report.prompt.cached_tokens, 40U);
}

TEST_P(AdmissionTest, ARequestThatOptsOutReusesNothingAndLeavesNothing) {
  World world(WithShape(GetParam()));
  Ask ask{.prompt = Text(40, 1)};
  world.Run(ask);
  ask.use_cache = false;
  const auto opted_out = world.Run(ask);
  EXPECT_EQ(opted_out->report.prompt.evaluated_tokens, 40U);
  EXPECT_EQ(opted_out->report.prompt.miss_reason, MissReason::kDisabled);
  const std::uint64_t known = world.cache.Stats().known_tokens;
  ask.prompt = Text(40, 2);
  world.Run(ask);
  EXPECT_EQ(world.cache.Stats().known_tokens, known);
  EXPECT_EQ(world.runtime.End(SeqId{0}), 0U);
}

TEST_P(AdmissionTest, WithoutACacheEveryRequestIsEvaluated) {
  WorldOptions options = WithShape(GetParam());
  options.engine.cache = false;
  World world(options);
  const Ask ask{.prompt = Text(40, 1)};
  world.Run(ask);
  EXPECT_EQ(world.Run(ask)->report.prompt.evaluated_tokens, 40U);
  EXPECT_EQ(world.cache.Stats().records, 0U);
}

TEST_P(AdmissionTest, OneTokenIsEvaluatedWhereTheDecodedResultIsNotWanted) {
  World world(WithShape(GetParam()));
  Ask ask{.prompt = Text(40, 1), .max_tokens = 2};
  world.Run(ask);
  ask.allow_decoded_result = false;
  const auto repeat = world.Run(ask);
  EXPECT_GE(repeat->report.prompt.evaluated_tokens, 1U);
  const bool any_boundary = world.runtime.info().shape.AnyBoundary();
  EXPECT_EQ(repeat->report.prompt.cached_tokens, any_boundary ? 39U : 32U);
}

TEST_P(AdmissionTest, AnEditIsServedUpToTheFirstChangedTokenOrTheLastSnapshotBeforeIt) {
  World world(WithShape(GetParam(), 2));
  const std::vector<Token> shared = Text(37, 1);
  world.Run({.prompt = shared + Text(30, 2)});
  const auto edited = world.Run({.prompt = shared + Text(30, 3)});
  const bool any_boundary = world.runtime.info().shape.AnyBoundary();
  EXPECT_EQ(edited->report.prompt.cached_tokens, any_boundary ? 37U : 32U);
  EXPECT_EQ(edited->report.prompt.miss_reason,
            any_boundary ? MissReason::kDiverged : MissReason::kNoBoundaryState);
  EXPECT_EQ(edited->report.prompt.first_different, 37U);
  // The junction was recorded as the second branch came by: the third starts right there.
  EXPECT_EQ(world.Run({.prompt = shared + Text(30, 4)})->report.prompt.cached_tokens, 37U);
}

TEST_P(AdmissionTest, AFailedImportIsForgottenAndTheRequestSucceeds) {
  WorldOptions options = WithShape(GetParam());
  options.faults.fail_import.calls = {1};
  World world(options);
  const std::vector<Token> prompt = Text(40, 1);
  world.Run({.prompt = prompt, .max_tokens = 1});
  world.Run({.prompt = Text(40, 2), .max_tokens = 1});
  world.Run({.prompt = prompt + Text(9, 3)});
  EXPECT_EQ(world.engine.Stats().restore_failures, 1U);
  EXPECT_EQ(world.cache.Stats().condemned, 1U);
  world.ExpectIdleAndSound();
}

TEST_P(AdmissionTest, AnImportThatLiesAboutItsEndIsCaught) {
  WorldOptions options = WithShape(GetParam());
  options.faults.lie_import.calls = {1, 2};
  World world(options);
  const std::vector<Token> prompt = Text(40, 1);
  world.Run({.prompt = prompt, .max_tokens = 1});
  world.Run({.prompt = Text(40, 2), .max_tokens = 1});
  world.Run({.prompt = prompt + Text(9, 3)});
  EXPECT_GE(world.engine.Stats().restore_failures, 1U);
  world.ExpectIdleAndSound();
}

TEST_P(AdmissionTest, ADecodedResultWhoseStateCannotBeFetchedIsEvaluatedAfterItsFirstToken) {
  WorldOptions options = WithShape(GetParam());
  options.faults.fail_import.permille = 1000;
  World world(options);
  const Ask ask{.prompt = Text(40, 1), .max_tokens = 5};
  world.Run(ask);
  world.Run({.prompt = Text(40, 2), .max_tokens = 5});
  const auto repeat = world.Run(ask);
  EXPECT_EQ(repeat->report.prompt.evaluated_tokens, 40U);
  world.ExpectIdleAndSound();
}

TEST_P(AdmissionTest, ADryRunTellsWhatARequestWouldFindAndChangesNothing) {
  World world(WithShape(GetParam()));
  const std::vector<Token> prompt = Text(40, 1);
  const auto answer = world.Run({.prompt = prompt, .max_tokens = 4});
  const std::uint64_t lookups = world.cache.Stats().lookups;
  const auto peek = [&](const std::vector<Token>& text) {
    return world.engine.Peek(text, "", {}).value();
  };
  EXPECT_EQ(peek(prompt).kind, HitKind::kDecodedResult);
  EXPECT_EQ(peek(prompt).boundary, 40U);
  EXPECT_EQ(peek(prompt + answer->tokens).kind, HitKind::kHot);
  EXPECT_EQ(peek(prompt + answer->tokens).boundary, 43U);
  EXPECT_EQ(peek(Text(20, 9)).kind, HitKind::kNone);
  EXPECT_EQ(peek(Text(20, 9)).reason, MissReason::kNeverSeen);
  EXPECT_FALSE(world.engine.Peek({}, "", {}));
  EXPECT_EQ(world.cache.Stats().lookups, lookups);
}

TEST_P(AdmissionTest, AFamilyWithoutExactExportsOnlyGoesOnInItsLane) {
  WorldOptions options = WithShape(GetParam());
  options.fake.exact_exports = false;
  World world(options);
  const Ask ask{.prompt = Text(40, 1), .max_tokens = 6};
  const auto answer = world.Run(ask);
  const std::vector<Token> turn = ask.prompt + answer->tokens + Text(7, 2);
  EXPECT_EQ(world.Run({.prompt = turn})->report.prompt.cached_hot, 45U);
  EXPECT_EQ(world.Run(ask)->report.prompt.cached_tokens, 0U);
  EXPECT_EQ(world.cache.Stats().records, 0U);
  EXPECT_EQ(world.runtime.counters().exports, 0U);
}

TEST_P(AdmissionTest, ForgettingIdleLanesAndClearingTheCacheLeavesNothingToReuse) {
  World world(WithShape(GetParam(), 2));
  const Ask ask{.prompt = Text(40, 1)};
  world.Run(ask);
  world.engine.ForgetIdleLanes();
  world.engine.Call([](PrefixCache& cache, runtime::Runtime&) { cache.Clear(); });
  EXPECT_EQ(world.Run(ask)->report.prompt.cached_tokens, 0U);
}

TEST_P(AdmissionTest, ALaneThatSomebodyElseChangedIsNotTrusted) {
  World world(WithShape(GetParam()));
  const Ask ask{.prompt = Text(40, 1), .max_tokens = 6};
  const auto answer = world.Run(ask);
  world.engine.Call([](PrefixCache&, runtime::Runtime& runtime) { runtime.Clear(SeqId{0}); });
  const auto next = world.Run({.prompt = ask.prompt + answer->tokens + Text(7, 2)});
  EXPECT_EQ(next->report.prompt.hit_kind, HitKind::kWarm);
}

TEST(AdmissionOfAttention, AnEditCutsTheLaneBackWithoutCopying) {
  World world(WithShape(ShapeKind::kAttention));
  const std::vector<Token> shared = Text(37, 1);
  world.Run({.prompt = shared + Text(30, 2)});
  const auto edited = world.Run({.prompt = shared + Text(30, 3)});
  EXPECT_EQ(edited->report.prompt.cached_hot, 37U);
  EXPECT_EQ(world.runtime.counters().imports, 0U);
  // What was cut off is still there for whoever comes back to it.
  EXPECT_EQ(world.Run({.prompt = shared + Text(30, 2)})->report.prompt.cached_tokens, 67U);
}

TEST(AdmissionOfAttention, OfTwoLanesWithThePrefixTheOneThatLosesLessIsTaken) {
  World world(WithShape(ShapeKind::kAttention, 2));
  const std::vector<Token> shared = Text(20, 1);
  const auto together = [&](const std::vector<Token>& a, const std::vector<Token>& b) {
    world.Submit({.prompt = a, .max_tokens = 1});
    world.Submit({.prompt = b, .max_tokens = 1});
    world.Drain();
  };
  together(shared + Text(60, 2), shared + Text(5, 3));
  const auto branch = world.Run({.prompt = shared + Text(7, 4), .max_tokens = 1});
  EXPECT_EQ(branch->report.prompt.cached_hot, 20U);
  std::uint32_t longest = 0;
  for (const LaneStatus& lane : world.engine.Lanes())
    longest = std::max(longest, lane.resident_tokens);
  EXPECT_EQ(longest, 80U);
}

TEST(AdmissionOfAttention, ARepeatTakesItsStateFromTheLaneThatHoldsIt) {
  World world(WithShape(ShapeKind::kAttention, 2));
  const Ask ask{.prompt = Text(40, 1), .max_tokens = 6};
  world.Run(ask);
  const auto repeat = world.Run(ask);
  EXPECT_EQ(repeat->report.prompt.hit_kind, HitKind::kDecodedResult);
  EXPECT_EQ(world.runtime.counters().imports, 0U);
}

}  // namespace
}  // namespace skippy::engine
