// The simulator's daily share: 200 seeds of each kind. More by hand: skippy_sim --seed=1
// --runs=10000.
#include <gtest/gtest.h>

#include "simulation.h"

namespace skippy::sim {
namespace {

constexpr std::uint64_t kSeedsPerTest = 50;

class Seeds : public testing::TestWithParam<std::uint64_t> {
 protected:
  std::uint64_t First() const { return GetParam() * kSeedsPerTest + 1; }
};
INSTANTIATE_TEST_SUITE_P(Quarter, Seeds, testing::Values(0, 1, 2, 3));

TEST_P(Seeds, GiveTheColdRunsTokensWhateverHappens) {
  for (std::uint64_t seed = First(); seed < First() + kSeedsPerTest; ++seed) {
    const RunResult result = RunSimulation(seed);
    EXPECT_TRUE(result.ok()) << result.failure << "\n"
                             << result.world << "\nreplay: skippy_sim --seed=" << seed;
  }
}

TEST_P(Seeds, EvaluateNothingTwice) {
  for (std::uint64_t seed = First(); seed < First() + kSeedsPerTest; ++seed) {
    const RunResult result = RunEconomy(seed);
    EXPECT_TRUE(result.ok()) << result.failure << "\n"
                             << result.world
                             << "\nreplay: skippy_sim --mode=economy --seed=" << seed;
  }
}

TEST(Simulation, ASeedIsARun) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(RunSimulation(seed).trace, RunSimulation(seed).trace) << "seed " << seed;
  }
  EXPECT_NE(RunSimulation(1).trace, RunSimulation(2).trace);
}

// A simulator that never gets anywhere passes too: what it is meant to exercise must have happened.
TEST(Simulation, ReachesWhatItIsMeantToReach) {
  engine::EngineStats engine;
  CacheStats cache;
  std::uint64_t faults = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const RunResult result = RunSimulation(seed);
    faults += result.faults;
    for (int kind = 0; kind < 4; ++kind)
      engine.hits_by_kind[kind] += result.engine.hits_by_kind[kind];
    engine.cancelled += result.engine.cancelled;
    engine.failed += result.engine.failed;
    engine.rejected += result.engine.rejected;
    engine.restore_failures += result.engine.restore_failures;
    engine.records_failed += result.engine.records_failed;
    engine.recomputed_tokens += result.engine.recomputed_tokens;
    engine.shared_prefill_waits += result.engine.shared_prefill_waits;
    engine.idle_runs += result.engine.idle_runs;
    engine.idle_evaluated_tokens += result.engine.idle_evaluated_tokens;
    cache.evicted_tokens += result.cache.evicted_tokens;
    cache.evicted_snapshots += result.cache.evicted_snapshots;
    cache.evicted_logits += result.cache.evicted_logits;
    cache.condemned += result.cache.condemned;
    cache.records_refused_too_large += result.cache.records_refused_too_large;
    cache.records_refused_no_room += result.cache.records_refused_no_room;
  }
  EXPECT_GT(faults, 0U);
  for (const std::uint64_t hits : engine.hits_by_kind) EXPECT_GT(hits, 0U);
  EXPECT_GT(engine.cancelled, 0U);
  EXPECT_GT(engine.failed, 0U);
  EXPECT_GT(engine.rejected, 0U);
  EXPECT_GT(engine.restore_failures, 0U);
  EXPECT_GT(engine.records_failed, 0U);
  EXPECT_GT(engine.recomputed_tokens, 0U);
  EXPECT_GT(engine.shared_prefill_waits, 0U);
  EXPECT_GT(engine.idle_runs, 0U);
  EXPECT_GT(engine.idle_evaluated_tokens, 0U);
  EXPECT_GT(cache.evicted_tokens, 0U);
  EXPECT_GT(cache.evicted_snapshots, 0U);
  EXPECT_GT(cache.evicted_logits, 0U);
  EXPECT_GT(cache.condemned, 0U);
  EXPECT_GT(cache.records_refused_too_large, 0U);
  EXPECT_GT(cache.records_refused_no_room, 0U);
}

}  // namespace
}  // namespace skippy::sim
