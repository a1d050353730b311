#include "skippy/prefix_cache.h"

#include <gtest/gtest.h>

#include "cache/cache_testing.h"

namespace skippy::cache {
namespace {

CacheOptions DenseOptions() {
  CacheOptions options;
  options.shape.kv_row_bytes = 16;
  options.shape.logits_bytes = 40;
  options.page_tokens = 8;
  options.max_bytes = 1 << 20;
  return options;
}

TEST(PrefixCacheTest, LookupReturnsWhatWasRecorded) {
  TestCache cache(DenseOptions());
  const Tokens a = MakeTokens(50, 1);
  ASSERT_EQ(cache.Record(a), RecordOutcome::kPlanned);
  EXPECT_EQ(cache.Cached(a), 49U);
  EXPECT_EQ(cache.Cached(Join(a, MakeTokens(5, 2))), 50U);
  EXPECT_EQ(cache.Cached(Join(TokenSpan(a).first(20), MakeTokens(5, 2))), 20U);
  EXPECT_EQ(cache.Cached(MakeTokens(50, 3)), 0U);
  EXPECT_TRUE(cache->SelfCheck());
}

TEST(PrefixCacheTest, BranchesShareTheirPrefixOnce) {
  TestCache cache(DenseOptions());
  const Tokens base = MakeTokens(100, 1);
  for (std::uint64_t i = 0; i < 12; ++i) cache.Record(Join(base, MakeTokens(10, 10 + i)));
  EXPECT_EQ(cache->Stats().physical_bytes, (100 + 12 * 10) * 16U);
  for (std::uint64_t i = 0; i < 12; ++i)
    EXPECT_EQ(cache.Cached(Join(base, MakeTokens(10, 10 + i))), 109U);
  EXPECT_TRUE(cache->SelfCheck());
}

}  // namespace
}  // namespace skippy::cache
