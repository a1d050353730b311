#include "skippy/snapshot_planner.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace skippy {
namespace {

using Plan = std::vector<Pos>;

TEST(SnapshotPlannerTest, NothingIsPlannedWhenNothingIsLeft) {
  EXPECT_EQ(PlanSnapshots({.resume = 10, .prompt_end = 10}), Plan{});
  EXPECT_EQ(PlanSnapshots({.resume = 11, .prompt_end = 10}), Plan{});
}

TEST(SnapshotPlannerTest, ThePromptEndIsAlwaysPlanned) {
  EXPECT_EQ(PlanSnapshots({.resume = 0, .prompt_end = 10}), Plan{10});
}

TEST(SnapshotPlannerTest, JunctionsAndFirstAndLastMessageStartsArePlanned) {
  const Plan starts{0, 500, 600};
  const Plan junctions{550};
  const SnapshotPlanInput input{
      .resume = 100, .prompt_end = 700, .message_starts = starts, .junctions = junctions};
  EXPECT_EQ(PlanSnapshots(input), (Plan{500, 550, 600, 700}));
}

// A prompt's last tokens are often its own alone: the grid point before them is what others share.
TEST(SnapshotPlannerTest, AGridPointJustBeforeThePromptEndIsKept) {
  EXPECT_EQ(PlanSnapshots({.prompt_end = 257, .grid = 64, .spacing = 1}),
            (Plan{64, 128, 192, 256, 257}));
  EXPECT_EQ(PlanSnapshots({.prompt_end = 90, .grid = 64, .spacing = 1}), (Plan{64, 90}));
}

TEST(SnapshotPlannerTest, SpacingIsRoundedUpToTheGrid) {
  EXPECT_EQ(PlanSnapshots({.prompt_end = 700, .grid = 64, .spacing = 200}), (Plan{256, 512, 700}));
}

TEST(SnapshotPlannerTest, MessageStartsAreBoundedByDoublingDistances) {
  Plan starts;
  for (Pos p = 10; p < 100'000; p += 10) starts.push_back(p);
  const Plan plan = PlanSnapshots({.prompt_end = 100'000, .message_starts = starts});
  EXPECT_LE(plan.size(), 20U);
  EXPECT_EQ(plan.front(), 10U);  // the first behind the system text
  const Plan tail(plan.end() - 4, plan.end());
  EXPECT_EQ(tail, (Plan{99'970, 99'980, 99'990, 100'000}));
}

TEST(SnapshotPlannerTest, OnTheGridOnlyEverythingButThePromptEndIsAMultiple) {
  const Plan starts{100, 200};
  const Plan junctions{300};
  const SnapshotPlanInput input{.prompt_end = 400,
                                .message_starts = starts,
                                .junctions = junctions,
                                .grid = 64,
                                .spacing = 0,
                                .grid_only = true};
  EXPECT_EQ(PlanSnapshots(input), (Plan{64, 192, 256, 384, 400}));
}

RC_GTEST_PROP(SnapshotPlannerProperty, PlansAreAscendingInRangeAndCoverThePrompt, ()) {
  const auto pos = rc::gen::inRange<Pos>(0, 3000);
  Plan starts = *rc::gen::container<Plan>(pos);
  std::sort(starts.begin(), starts.end());
  const Plan junctions = *rc::gen::container<Plan>(pos);
  const SnapshotPlanInput input{.resume = *pos,
                                .prompt_end = *pos,
                                .message_starts = starts,
                                .junctions = junctions,
                                .grid = *rc::gen::element<Pos>(0, 1, 16, 64),
                                .spacing = *rc::gen::element<Pos>(0, 1, 100, 512),
                                .grid_only = *rc::gen::arbitrary<bool>()};
  const Plan plan = PlanSnapshots(input);
  RC_ASSERT(plan.empty() == (input.resume >= input.prompt_end));
  if (plan.empty()) return;
  RC_ASSERT(plan.back() == input.prompt_end);
  Pos last = input.resume;
  const std::uint64_t grid = std::max<Pos>(input.grid, 1);
  const std::uint64_t step = (input.spacing + grid - 1) / grid * grid;
  for (const Pos p : plan) {
    RC_ASSERT(p > last);
    if (input.spacing > 0) RC_ASSERT(p - last <= step);
    if (input.grid_only && input.grid > 0 && p != plan.back()) RC_ASSERT(p % input.grid == 0U);
    last = p;
  }
  if (!input.grid_only) {
    for (const Pos j : junctions) {
      if (j > input.resume && j <= input.prompt_end) {
        RC_ASSERT(std::binary_search(plan.begin(), plan.end(), j));
      }
    }
  }
}

}  // namespace
}  // namespace skippy
