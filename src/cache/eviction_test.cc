#include "cache/eviction.h"

#include <gtest/gtest.h>

#include <vector>

#include "cache/index.h"

namespace skippy::cache {
namespace {

TEST(SegmentedLruTest, EntriesNeverHitGoBeforeEntriesThatWereHit) {
  const SegmentedLru policy;
  const Rank old_hit = policy.RankOf({.was_hit = true, .tick = 1});
  const Rank new_unhit = policy.RankOf({.was_hit = false, .tick = 100});
  EXPECT_LT(new_unhit, old_hit);
}

TEST(SegmentedLruTest, WhatIsToSpareGoesBeforeEverythingElse) {
  const SegmentedLru policy;
  const Rank new_spare = policy.RankOf({.spare = true, .was_hit = true, .tick = 100});
  EXPECT_LT(new_spare, policy.RankOf({.was_hit = false, .tick = 1}));
  EXPECT_LT(policy.RankOf({.spare = true, .tick = 1}), new_spare);
}

TEST(SegmentedLruTest, WithinASegmentTheLeastRecentlyUsedGoesFirst) {
  const SegmentedLru policy;
  EXPECT_LT(policy.RankOf({.tick = 1}), policy.RankOf({.tick = 2}));
  EXPECT_LT(policy.RankOf({.was_hit = true, .tick = 1}),
            policy.RankOf({.was_hit = true, .tick = 2}));
}

TEST(BenefitPerByteTest, TheLeastBenefitPerByteGoesFirst) {
  const BenefitPerByte policy;
  const Rank plain = policy.RankOf({.hits = 0, .tokens = 100, .bytes = 1000});
  EXPECT_LT(plain, policy.RankOf({.hits = 1, .tokens = 100, .bytes = 1000}));
  EXPECT_LT(plain, policy.RankOf({.hits = 0, .tokens = 101, .bytes = 1000}));
  EXPECT_LT(plain, policy.RankOf({.hits = 0, .tokens = 100, .bytes = 999}));
}

TEST(BenefitPerByteTest, OldMeritFadesAsOthersAreEvicted) {
  BenefitPerByte policy;
  const EntryFacts favourite{.age = policy.Age(), .hits = 3, .tokens = 100, .bytes = 100};
  for (int i = 0; i < 5; ++i) {
    policy.OnEvict(policy.RankOf({.age = policy.Age(), .hits = 0, .tokens = 100, .bytes = 100}));
  }
  EXPECT_LT(policy.RankOf(favourite),
            policy.RankOf({.age = policy.Age(), .hits = 0, .tokens = 100, .bytes = 100}));
}

TEST(BenefitPerByteTest, HugeFactsDoNotOverflow) {
  const BenefitPerByte policy;
  const std::uint64_t huge = ~std::uint64_t{0} / 4;
  EXPECT_GT(policy.RankOf({.age = huge, .hits = huge, .tokens = huge, .bytes = 1}),
            policy.RankOf({.age = 0, .hits = 1, .tokens = 1, .bytes = 1}));
}

TEST(EvictionOrderTest, KindsAreVisitedInOneOrder) {
  EvictionOrder order;
  order.Insert({.rank = {0, 5}, .kind = UnitKind::kTail, .serial = 1});
  order.Insert({.rank = {0, 5}, .kind = UnitKind::kThin, .serial = 2});
  order.Insert({.rank = {0, 4}, .kind = UnitKind::kTail, .serial = 3});
  order.Insert({.rank = {1, 0}, .kind = UnitKind::kThin, .serial = 4});
  order.Insert({.rank = {0, 0}, .kind = UnitKind::kLastResort, .serial = 5});
  std::vector<std::uint64_t> visited;
  const bool taken =
      VisitInOrder(order, {UnitKind::kThin, UnitKind::kTail}, [&](const CandidateKey& key) {
        visited.push_back(key.serial);
        return false;
      });
  EXPECT_FALSE(taken);
  EXPECT_EQ(visited, (std::vector<std::uint64_t>{3, 2, 1, 4}));
}

TEST(EvictionOrderTest, EquallyRankedEntriesLoseTheDeeperFirst) {
  const CandidateKey base{.rank = {0, 1}, .depth = 0, .serial = 1};
  const CandidateKey leaf{.rank = {0, 1}, .depth = 100, .serial = 2};
  EXPECT_LT(leaf, base);
}

}  // namespace
}  // namespace skippy::cache
