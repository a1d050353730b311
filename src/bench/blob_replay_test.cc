#include "bench/blob_replay.h"

#include <gtest/gtest.h>

namespace skippy::bench {
namespace {

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 40;

TEST(BlobReplayTest, EachPromptTakesWhatItSharesAndLeavesAllItsRows) {
  const Trace trace = {16, {{0, 40, 0, {1, 2, 3}}, {0, 48, 0, {1, 4, 5}}, {0, 40, 0, {1, 2, 3}}}};
  const ReplayResult result = ReplayBlobs(trace, {kPlenty, 2});
  EXPECT_EQ(result.evaluated_tokens, 40U + 32U + 1U);
  EXPECT_EQ(result.physical_bytes, 2 * (40U + 48U));
  EXPECT_EQ(result.known_tokens, 40U + 32U);
}

TEST(BlobReplayTest, ANewTurnReplacesTheOneBefore) {
  const Trace trace = {16, {{0, 40, 0, {1, 2, 3}}, {0, 56, 0, {1, 2, 4, 5}}}};
  EXPECT_EQ(ReplayBlobs(trace, {kPlenty, 1}).physical_bytes, 96U);
  const ReplayResult result = ReplayBlobs(trace, {kPlenty, 1, true});
  EXPECT_EQ(result.physical_bytes, 56U);
  EXPECT_EQ(result.evicted_bytes, 0U);
}

TEST(BlobReplayTest, TheLeastRecentlyUsedBlobGoesFirst) {
  const Trace trace = {
      16, {{0, 32, 0, {1, 2}}, {0, 32, 0, {3, 4}}, {0, 32, 0, {5, 6}}, {0, 32, 0, {3, 4}}}};
  const ReplayResult result = ReplayBlobs(trace, {64, 1});
  EXPECT_EQ(result.evaluated_tokens, 32U * 3 + 1);
  EXPECT_EQ(result.peak_bytes, 64U);
  EXPECT_EQ(result.evicted_bytes, 32U);
}

}  // namespace
}  // namespace skippy::bench
