#include "skippy/cache_options.h"

#include <gtest/gtest.h>

namespace skippy {
namespace {

CacheOptions Good() {
  CacheOptions options;
  options.shape.kv_row_bytes = 16;
  return options;
}

TEST(CacheOptionsTest, DefaultsWithAShapeAreValid) { EXPECT_TRUE(Good().Validate().empty()); }

TEST(CacheOptionsTest, EveryProblemIsNamedAtOnce) {
  CacheOptions options = Good();
  options.page_tokens = 0;
  options.max_entries = 0;
  options.digest = nullptr;
  options.eviction = static_cast<EvictionPolicyKind>(9);
  options.shape.window_row_bytes = 8;
  options.shape.window_tokens = 0;
  EXPECT_EQ(options.Validate().size(), 5U);
}

TEST(CacheOptionsTest, SizesWhoseProductsCouldOverflowAreRefused) {
  CacheOptions options = Good();
  options.shape.kv_row_bytes = ~std::uint64_t{0};
  options.shape.snapshot_bytes = ~std::uint64_t{0};
  options.shape.logits_bytes = ~std::uint64_t{0};
  EXPECT_EQ(options.Validate().size(), 3U);
}

TEST(CacheOptionsTest, ShapeWithoutComponentsNeedsThePolicyOff) {
  CacheOptions options;
  EXPECT_EQ(options.Validate().size(), 1U);
  options.policy = PayloadPolicy::kOff;
  EXPECT_TRUE(options.Validate().empty());
}

TEST(CacheOptionsTest, PoliciesHaveNames) {
  EXPECT_EQ(PayloadPolicyName(PayloadPolicy::kOff), "off");
  EXPECT_EQ(PayloadPolicyName(PayloadPolicy::kResidentKv), "resident_kv");
  EXPECT_EQ(PayloadPolicyName(PayloadPolicy::kKvRecurrent), "kv_recurrent");
  EXPECT_EQ(PayloadPolicyName(PayloadPolicy::kFullState), "full_state");
}

}  // namespace
}  // namespace skippy
