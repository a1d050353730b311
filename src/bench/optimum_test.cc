#include "bench/optimum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace skippy::bench {
namespace {

// Blocks of one token.
Trace Of(const std::vector<std::vector<std::uint64_t>>& paths) {
  Trace trace;
  trace.block_tokens = 1;
  for (const auto& path : paths)
    trace.requests.push_back({0, static_cast<std::uint32_t>(path.size()), 0, path});
  return trace;
}

TEST(OptimumTest, APerfectTreeEvaluatesEachPathOnce) {
  const Optimum optimum = PerfectTree(Of({{1, 2, 3}, {1, 2, 4}, {1, 2, 3}, {2, 3}}));
  EXPECT_EQ(optimum.evaluated_tokens, 3U + 1U + 0U + 2U);
  EXPECT_EQ(optimum.cached_tokens, 2U + 3U);
}

TEST(OptimumTest, TheSameIdBehindAnotherPrefixIsAnotherBlock) {
  EXPECT_EQ(PerfectTree(Of({{1, 7}, {2, 7}})).evaluated_tokens, 4U);
}

TEST(OptimumTest, WhatComesLastIsDroppedFirst) {
  // Room for two: {1} and {2} come back, {3} does not.
  EXPECT_EQ(KnowingTheFuture(Of({{1}, {2}, {3}, {1}, {2}}), 2).evaluated_tokens, 3U);
  EXPECT_EQ(KnowingTheFuture(Of({{1}, {2}, {3}, {1}, {2}}), 1).evaluated_tokens, 4U);
  EXPECT_EQ(KnowingTheFuture(Of({{1}, {2}, {3}, {1}, {2}}), 0).evaluated_tokens, 5U);
}

TEST(OptimumTest, PartialBlocksCountWhatTheyHold) {
  Trace trace;
  trace.block_tokens = 10;
  trace.requests = {{0, 13, 0, {1, 2}}, {0, 13, 0, {1, 2}}, {0, 10, 0, {1}}};
  EXPECT_EQ(PerfectTree(trace).evaluated_tokens, 13U);
  EXPECT_EQ(PerfectTree(trace).cached_tokens, 23U);
  // Ten fit: the second request needs its last three again.
  EXPECT_EQ(KnowingTheFuture(trace, 12).evaluated_tokens, 16U);
}

// All ways to keep blocks between requests, for tiny traces.
std::uint64_t BestByTrying(const std::vector<std::vector<std::uint64_t>>& paths, std::size_t cap) {
  using Kept = std::vector<std::vector<std::uint64_t>>;  // sorted prefixes
  std::map<Kept, std::uint64_t> best = {{{}, 0}};
  for (const auto& path : paths) {
    std::map<Kept, std::uint64_t> after;
    for (const auto& [kept, cost] : best) {
      std::uint64_t evaluated = 0;
      Kept all = kept;
      bool whole = true;
      for (std::size_t n = 1; n <= path.size(); ++n) {
        const std::vector<std::uint64_t> prefix(path.begin(),
                                                path.begin() + static_cast<std::ptrdiff_t>(n));
        const bool there = std::find(kept.begin(), kept.end(), prefix) != kept.end();
        whole = whole && there;
        if (!whole) ++evaluated;
        if (!there) all.push_back(prefix);
      }
      for (std::uint32_t mask = 0; mask < (1U << all.size()); ++mask) {
        if (static_cast<std::size_t>(__builtin_popcount(mask)) > cap) continue;
        Kept next;
        for (std::size_t i = 0; i < all.size(); ++i)
          if ((mask >> i & 1U) != 0) next.push_back(all[i]);
        std::sort(next.begin(), next.end());
        const auto [at, fresh] = after.try_emplace(next, cost + evaluated);
        if (!fresh) at->second = std::min(at->second, cost + evaluated);
      }
    }
    best = std::move(after);
  }
  std::uint64_t least = ~std::uint64_t{0};
  for (const auto& [kept, cost] : best) least = std::min(least, cost);
  return least;
}

TEST(OptimumTest, NoChoiceOfBlocksIsBetter) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::vector<std::uint64_t>> paths(5);
    for (auto& path : paths) {
      path.resize(1 + random() % 3);
      for (auto& id : path) id = random() % 2;
    }
    for (const std::size_t cap : {0U, 1U, 2U, 3U}) {
      EXPECT_EQ(KnowingTheFuture(Of(paths), cap).evaluated_tokens, BestByTrying(paths, cap))
          << "round " << round << " cap " << cap;
    }
  }
}

}  // namespace
}  // namespace skippy::bench
