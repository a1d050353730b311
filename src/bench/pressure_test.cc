#include <gtest/gtest.h>

#include "bench/pressure_testing.h"

namespace skippy::bench {
namespace {

using runtime::fake::ShapeKind;

constexpr std::uint64_t kSeeds = 10;

PressureResult OverSeeds(Pressure wish) {
  PressureResult sum;
  for (wish.seed = 1; wish.seed <= kSeeds; ++wish.seed) {
    const PressureResult one = PressureRun(wish).Run();
    sum.ideal += one.ideal;
    sum.ours += one.ours;
    sum.whole_lru += one.whole_lru;
  }
  return sum;
}

double OverWholeLru(const PressureResult& result) {
  return static_cast<double>(result.ours) / static_cast<double>(result.whole_lru);
}

// Logits weigh about 15 rows, as in our small models.
TEST(PressureTest, RowsEvaluateAboutWhatWholeConversationsWould) {
  const PressureResult result = OverSeeds({.shape = ShapeKind::kAttention, .vocab = 105});
  EXPECT_LT(OverWholeLru(result), 1.02);
  EXPECT_GT(result.whole_lru, result.ideal * 11 / 10) << "the cap is not felt";
}

TEST(PressureTest, WindowsBehindOldEndsDoNotCrowdOutOtherConversations) {
  EXPECT_LT(OverWholeLru(OverSeeds({.shape = ShapeKind::kWindow, .vocab = 52})), 1.08);
}

TEST(PressureTest, OldSnapshotsDoNotCrowdOutOtherConversations) {
  const auto hybrid = [](std::uint32_t rows) {
    return OverSeeds({.shape = ShapeKind::kHybrid, .snapshot_bytes = rows * 14, .vocab = 52});
  };
  EXPECT_LT(OverWholeLru(hybrid(70)), 1.10);
  EXPECT_LT(OverWholeLru(hybrid(1500)), 1.25);
}

TEST(PressureTest, WhereASnapshotIsAllThatThereIsMostGoToEnds) {
  EXPECT_LT(
      OverWholeLru(OverSeeds({.shape = ShapeKind::kRecurrent, .snapshot_bytes = 980, .vocab = 52})),
      1.45);
}

TEST(PressureTest, TheSameSeedEvaluatesTheSame) {
  const Pressure wish{.shape = ShapeKind::kHybrid, .snapshot_bytes = 980, .vocab = 52, .seed = 7};
  PressureRun first(wish);
  PressureRun second(wish);
  EXPECT_EQ(first.Run().ours, second.Run().ours);
  EXPECT_EQ(first.stats.evicted_bytes, second.stats.evicted_bytes);
}

}  // namespace
}  // namespace skippy::bench
