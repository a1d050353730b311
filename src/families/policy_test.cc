// The payload policy follows from what a model holds, and whole states are never chosen.
#include "families/policy.h"

#include <gtest/gtest.h>

#include <array>

namespace skippy::families {
namespace {

TEST(PolicyTest, EveryShapeGetsThePolicyOfWhatItHolds) {
  constexpr std::array<std::uint64_t, 4> kSizes{0, 1, 4096, UINT64_MAX};
  for (const std::uint64_t kv : kSizes) {
    for (const std::uint64_t window : kSizes) {
      for (const std::uint64_t snapshot : kSizes) {
        for (const std::uint32_t tokens : {0U, 511U}) {
          MemoryShape shape;
          shape.kv_row_bytes = kv;
          shape.window_row_bytes = window;
          shape.window_tokens = tokens;
          shape.snapshot_bytes = snapshot;
          const Selection on = SelectPolicy(shape, "");
          const PayloadPolicy right = snapshot > 0           ? PayloadPolicy::kKvRecurrent
                                      : kv > 0 || window > 0 ? PayloadPolicy::kResidentKv
                                                             : PayloadPolicy::kOff;
          EXPECT_EQ(on.policy, right) << kv << " " << window << " " << snapshot;
          EXPECT_EQ(on.reason.empty(), on.policy != PayloadPolicy::kOff);
          EXPECT_NE(on.policy, PayloadPolicy::kFullState);

          const Selection off = SelectPolicy(shape, "cannot be exported");
          EXPECT_EQ(off.policy, PayloadPolicy::kOff);
          EXPECT_EQ(off.reason, "cannot be exported");
        }
      }
    }
  }
}

TEST(PolicyTest, ShapesAreSaidInWords) {
  MemoryShape shape;
  EXPECT_EQ(MemoryWords(shape), "nothing");
  shape.kv_row_bytes = 1;
  EXPECT_EQ(GranularityWords(shape, PayloadPolicy::kResidentKv), "any token");
  shape.window_row_bytes = 1;
  EXPECT_EQ(GranularityWords(shape, PayloadPolicy::kResidentKv),
            "any token whose last window is stored");
  shape.snapshot_bytes = 1;
  EXPECT_EQ(MemoryWords(shape), "rows of every token, a sliding window, a state of constant size");
  EXPECT_EQ(GranularityWords(shape, PayloadPolicy::kKvRecurrent), "where a snapshot was taken");
  EXPECT_EQ(GranularityWords(shape, PayloadPolicy::kOff), "none");
}

}  // namespace
}  // namespace skippy::families
