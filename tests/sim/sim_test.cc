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

TEST(Simulation, ReachesWhatItIsMeantToReach) {
  std::uint64_t cached = 0;
  std::uint64_t faults = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const RunResult result = RunSimulation(seed);
    cached += result.cached_tokens;
    faults += result.faults;
  }
  EXPECT_GT(cached, 0U);
  EXPECT_GT(faults, 0U);
}

}  // namespace
}  // namespace skippy::sim
