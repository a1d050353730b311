#include "skippy/prefix_cache.h"

#include <gtest/gtest.h>

#include <set>
#include <type_traits>

#include "cache/cache_testing.h"

namespace skippy::cache {

namespace {

LookupQuery QueryOf(const TestCache& cache, TokenSpan tokens) {
  LookupQuery query;
  query.ns = cache.ns;
  query.tokens = tokens;
  query.max_boundary = static_cast<Pos>(tokens.size() - 1);
  return query;
}

static_assert(!std::is_copy_constructible_v<PinnedHit> &&
              std::is_nothrow_move_constructible_v<PinnedHit>);
static_assert(!std::is_copy_constructible_v<RecordTicket> &&
              std::is_nothrow_move_constructible_v<RecordTicket>);

// ---- lookup

TEST(PrefixCacheTest, LookupReturnsTheLongestPrefix) {
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
  EXPECT_EQ(cache->Stats().physical_bytes, (100 + 12 * 10) * kRow);
  EXPECT_EQ(cache->Stats().logical_bytes, (100 + 12 * 10) * kRow);
  for (std::uint64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(cache.Cached(Join(base, MakeTokens(10, 10 + i))), 109U);
  }
}

TEST(PrefixCacheTest, NamespacesDoNotSeeEachOtherButShareEqualBytes) {
  TestCache cache(DenseOptions());
  const Tokens a = MakeTokens(16, 1);
  cache.Record(a);
  cache.ns = Namespace{Blake3(std::as_bytes(std::span("other")))};
  EXPECT_EQ(cache.Cached(a), 0U);
  EXPECT_EQ(cache.Lookup(a).reason, MissReason::kNeverSeen);
  cache.Record(a);
  EXPECT_EQ(cache->Stats().physical_bytes, 16 * kRow);
  EXPECT_EQ(cache->Stats().logical_bytes, 32 * kRow);
  EXPECT_EQ(cache->Stats().deduplicated_bytes, 16 * kRow);
}

TEST(PrefixCacheTest, ADecodedResultNeedsTheWholeQueryAndItsLogits) {
  TestCache cache(HybridOptions());
  const Tokens a = MakeTokens(30, 1);
  cache.Record(a, {.logits = true});
  const LookupResult exact = cache.Lookup(a);
  ASSERT_TRUE(exact.hit);
  EXPECT_TRUE(exact.hit->decoded_result());
  EXPECT_EQ(exact.hit->boundary(), 30U);
  EXPECT_EQ(exact.reason, MissReason::kNone);
  EXPECT_EQ(CheckHit(*exact.hit, a, cache->options().shape, false), "");
  const LookupResult longer = cache.Lookup(Join(a, MakeTokens(1, 2)));
  EXPECT_FALSE(longer.hit->decoded_result());
  LookupQuery forbidden = QueryOf(cache, a);
  forbidden.allow_decoded_result = false;
  EXPECT_FALSE(cache->Lookup(forbidden).hit);  // the only snapshot lies behind max_boundary
  EXPECT_EQ(cache->Stats().decoded_result_hits, 1U);
}

TEST(PrefixCacheTest, LogitsWithoutAUsableBoundaryAreNotRecorded) {
  TestCache cache(HybridOptions());
  const RecordPlan plan = cache.Begin(MakeTokens(30, 1), {.snapshot = false, .logits = true});
  ASSERT_TRUE(plan.ticket);
  EXPECT_TRUE(plan.ticket->logits().empty());
}

TEST(PrefixCacheTest, RecurrentMemoryResumesOnlyAtSnapshots) {
  TestCache cache(HybridOptions());
  const Tokens a = MakeTokens(100, 1);
  cache.Record(TokenSpan(a).first(40));
  cache.Record(a, {.snapshot = false});
  const LookupResult result = cache.Lookup(a);
  ASSERT_TRUE(result.hit);
  EXPECT_EQ(result.hit->boundary(), 40U);
  EXPECT_EQ(result.reason, MissReason::kNoBoundaryState);
  EXPECT_EQ(result.first_different, 100U);
}

TEST(PrefixCacheTest, HitsShorterThanTheMinimumAreMisses) {
  CacheOptions options = DenseOptions();
  options.min_hit_tokens = 20;
  TestCache cache(options);
  const Tokens a = MakeTokens(50, 1);
  cache.Record(a);
  const LookupResult result = cache.Lookup(Join(TokenSpan(a).first(19), MakeTokens(9, 2)));
  EXPECT_FALSE(result.hit);
  EXPECT_EQ(result.reason, MissReason::kBelowMin);
  EXPECT_EQ(result.first_different, 19U);
  EXPECT_TRUE(cache.Lookup(Join(TokenSpan(a).first(20), MakeTokens(9, 2))).hit);
}

TEST(PrefixCacheTest, APeekChangesNothing) {
  TestCache cache(DenseOptions());
  const Tokens a = MakeTokens(50, 1);
  cache.Record(a);
  EXPECT_EQ(cache.Cached(a, true), 49U);
  EXPECT_EQ(cache->Stats().lookups, 0U);
  EXPECT_EQ(cache->Stats().hits, 0U);
}

TEST(PrefixCacheTest, CountersAreTheSumsOfTheResults) {
  TestCache cache(DenseOptions());
  const Tokens a = MakeTokens(50, 1);
  cache.Cached(a);
  cache.Record(a);
  cache.Cached(a);
  cache.Cached(Join(TokenSpan(a).first(10), MakeTokens(10, 2)));
  const CacheStats stats = cache->Stats();
  EXPECT_EQ(stats.lookups, 3U);
  EXPECT_EQ(stats.lookup_tokens, 120U);
  EXPECT_EQ(stats.hits, 2U);
  EXPECT_EQ(stats.hit_tokens, 59U);
  EXPECT_EQ(stats.misses_by_reason[static_cast<std::size_t>(MissReason::kNeverSeen)], 1U);
  EXPECT_EQ(stats.records, 1U);
  EXPECT_EQ(stats.records_aborted, 0U);
  EXPECT_EQ(stats.recorded_bytes, 50 * kRow);
}

TEST(PrefixCacheTest, EmptyAndTinyQueriesMiss) {
  TestCache cache(DenseOptions());
  cache.Record(MakeTokens(5, 1));
  EXPECT_FALSE(cache.Lookup({}).hit);
  EXPECT_FALSE(cache.Lookup(MakeTokens(1, 1)).hit);
  EXPECT_EQ(cache.Record({}), RecordOutcome::kNothingNew);
}

// ---- reasons

TEST(MissReasonTest, DivergedNamesTheFirstDifferentToken) {
  TestCache cache(DenseOptions());
  const Tokens a = MakeTokens(50, 1);
  cache.Record(a);
  const LookupResult inside = cache.Lookup(Join(TokenSpan(a).first(20), MakeTokens(5, 2)));
  EXPECT_EQ(inside.reason, MissReason::kDiverged);
  EXPECT_EQ(inside.first_different, 20U);
  const LookupResult behind = cache.Lookup(Join(a, MakeTokens(5, 2)));
  EXPECT_EQ(behind.reason,
            MissReason::kNone);  // the stored text ends here; nothing goes on differently
  EXPECT_EQ(behind.first_different, 50U);
}

TEST(MissReasonTest, EvictedTextIsRemembered) {
  TestCache cache(DenseOptions(20 * kRow));
  const Tokens a = MakeTokens(20, 1);
  cache.Record(a);
  cache.Record(MakeTokens(20, 2));
  const LookupResult gone = cache.Lookup(a);
  EXPECT_FALSE(gone.hit);
  EXPECT_EQ(gone.reason, MissReason::kEvicted);
  cache.Record(MakeTokens(8, 3));  // takes the last pages of the second prompt
  const LookupResult cut = cache.Lookup(MakeTokens(20, 2));
  ASSERT_TRUE(cut.hit);
  EXPECT_EQ(cut.reason, MissReason::kEvicted);
  EXPECT_LT(cut.first_different, 20U);
}

TEST(MissReasonTest, WithoutTombstonesAnEvictionIsNeverInvented) {
  CacheOptions options = DenseOptions(20 * kRow);
  options.max_tombstones = 0;
  TestCache cache(options);
  cache.Record(MakeTokens(20, 1));
  cache.Record(MakeTokens(20, 2));
  EXPECT_EQ(cache.Lookup(MakeTokens(20, 1)).reason, MissReason::kNeverSeen);
}

TEST(MissReasonTest, RefusedTextCountsAsEvicted) {
  TestCache cache(DenseOptions(10 * kRow));
  EXPECT_EQ(cache.Record(MakeTokens(20, 1)), RecordOutcome::kTooLarge);
  EXPECT_EQ(cache.Lookup(MakeTokens(20, 1)).reason, MissReason::kEvicted);
  EXPECT_EQ(cache->Stats().records_refused_too_large, 1U);
}

TEST(MissReasonTest, EveryReasonHasAName) {
  std::set<std::string_view> names;
  for (int r = 0; r < kMissReasonCount; ++r)
    names.insert(MissReasonName(static_cast<MissReason>(r)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kMissReasonCount));
  EXPECT_EQ(names.count("unknown"), 0U);
}

// ---- record

TEST(RecordTest, RowsAreCutAtPagesAndOnlyMissingOnesAreWanted) {
  TestCache cache(DenseOptions());
  const Tokens a = MakeTokens(30, 1);
  cache.Record(TokenSpan(a).first(11));
  const RecordPlan plan = cache.Begin(a);
  ASSERT_TRUE(plan.ticket);
  std::vector<PosRange> ranges;
  for (const auto& rows : plan.ticket->rows()) ranges.push_back(rows.positions);
  EXPECT_EQ(ranges, (std::vector<PosRange>{{11, 16}, {16, 24}, {24, 30}}));
  EXPECT_EQ(cache.Record(TokenSpan(a).first(11)), RecordOutcome::kNothingNew);
}

TEST(RecordTest, NothingIsVisibleBeforeCommitAndNothingAfterAnAbort) {
  TestCache cache(DenseOptions());
  const Tokens a = MakeTokens(30, 1);
  {
    const RecordPlan plan = cache.Begin(a);
    ASSERT_TRUE(plan.ticket);
    EXPECT_EQ(cache.Cached(a), 0U);
    EXPECT_TRUE(cache->SelfCheck());
  }
  EXPECT_EQ(cache.Cached(a), 0U);
  EXPECT_EQ(cache->Stats().records_aborted, 1U);
  EXPECT_EQ(cache->Stats().physical_bytes, 0U);
  EXPECT_EQ(cache.Record(a), RecordOutcome::kPlanned);
}

TEST(RecordTest, OpenTicketsReserveTheirBytes) {
  TestCache cache(DenseOptions(40 * kRow));
  const RecordPlan first = cache.Begin(MakeTokens(30, 1));
  ASSERT_TRUE(first.ticket);
  EXPECT_EQ(cache.Record(MakeTokens(11, 2)), RecordOutcome::kNoRoom);
  EXPECT_EQ(cache.Record(MakeTokens(10, 2)), RecordOutcome::kPlanned);
  EXPECT_EQ(cache->Stats().records_refused_no_room, 1U);
}

TEST(RecordTest, TwoLanesMayRecordTheSameTextAtOnce) {
  TestCache cache(HybridOptions());
  const Tokens base = MakeTokens(20, 1);
  const Tokens a = Join(base, MakeTokens(10, 2));
  const Tokens b = Join(base, MakeTokens(10, 3));
  RecordPlan first = cache.Begin(a);
  RecordPlan second = cache.Begin(b);
  ASSERT_TRUE(first.ticket && second.ticket);
  FillTicket(*first.ticket, a, Provenance::kPrefill);
  FillTicket(*second.ticket, b, Provenance::kPrefill);
  EXPECT_TRUE(cache->Commit(std::move(*second.ticket)));
  EXPECT_TRUE(cache->Commit(std::move(*first.ticket)));
  EXPECT_EQ(cache.Cached(Join(a, b)), 30U);
  EXPECT_EQ(cache.Cached(Join(b, a)), 30U);
  // [16, 20) lies in the last pages of both and is kept from the first committer; the other page
  // holds it too.
  EXPECT_LE(cache->Stats().physical_bytes, (20 + 10 + 10 + 4) * kRow + 2 * 100);
  EXPECT_GE(cache->Stats().deduplicated_bytes, 16 * kRow);
  EXPECT_TRUE(cache->SelfCheck());
}

TEST(RecordTest, RowsThatCannotBeExportedLeaveAGap) {
  TestCache cache(DenseOptions());
  const Tokens a = MakeTokens(30, 1);
  EXPECT_EQ(cache.Record(a, {.rows_available_from = 10}), RecordOutcome::kGap);
  cache.Record(TokenSpan(a).first(10));
  EXPECT_EQ(cache.Record(a, {.rows_available_from = 10}), RecordOutcome::kPlanned);
}

TEST(RecordTest, ABaseThatIsClearedMeanwhileFailsTheCommit) {
  TestCache cache(DenseOptions());
  const Tokens a = MakeTokens(30, 1);
  cache.Record(TokenSpan(a).first(16));
  RecordPlan plan = cache.Begin(a);
  ASSERT_TRUE(plan.ticket);
  cache->Clear();
  FillTicket(*plan.ticket, a, Provenance::kPrefill);
  const Status status = cache->Commit(std::move(*plan.ticket));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(cache.Cached(a), 0U);
  EXPECT_EQ(cache->Stats().physical_bytes, 0U);
  EXPECT_TRUE(cache->SelfCheck());
}

TEST(RecordTest, ATicketHoldsItsBaseAgainstEviction) {
  TestCache cache(DenseOptions(32 * kRow));
  const Tokens a = MakeTokens(24, 1);
  cache.Record(TokenSpan(a).first(16));
  RecordPlan plan = cache.Begin(a);
  ASSERT_TRUE(plan.ticket);
  EXPECT_EQ(cache.Record(MakeTokens(16, 2)), RecordOutcome::kNoRoom);
  FillTicket(*plan.ticket, a, Provenance::kPrefill);
  EXPECT_TRUE(cache->Commit(std::move(*plan.ticket)));
  EXPECT_EQ(cache.Cached(a), 23U);
}

TEST(RecordTest, ATicketOfAnotherCacheIsRefused) {
  TestCache one(DenseOptions());
  TestCache other(DenseOptions());
  RecordPlan plan = one.Begin(MakeTokens(5, 1));
  EXPECT_EQ(other->Commit(std::move(*plan.ticket)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(one->Stats().records_aborted, 1U);
}

TEST(RecordTest, HitsAndTicketsMayOutliveTheCache) {
  const Tokens a = MakeTokens(20, 1);
  auto cache = std::make_unique<TestCache>(DenseOptions());
  cache->Record(a);
  LookupResult result = cache->Lookup(a);
  RecordPlan plan = cache->Begin(Join(a, a));
  cache.reset();
  ASSERT_TRUE(result.hit && plan.ticket);
  EXPECT_EQ(CheckHit(*result.hit, a, DenseOptions().shape, false), "");
  FillTicket(*plan.ticket, Join(a, a), Provenance::kPrefill);
}

TEST(RecordTest, EvictedRowsOfALiveLaneAreWantedAgain) {
  TestCache cache(DenseOptions(40 * kRow));
  const Tokens a = MakeTokens(40, 1);
  cache.Record(TokenSpan(a).first(32));
  cache.Record(MakeTokens(32, 2));  // pushes out most of the lane's rows
  EXPECT_EQ(cache.Record(a), RecordOutcome::kPlanned);
  EXPECT_EQ(cache.Cached(a), 39U);
}

// ---- window rows

TEST(WindowTest, InnerBoundariesAreUsableWhileTheirRowsAreThere) {
  TestCache cache(WindowOptions());
  const Tokens a = MakeTokens(100, 1);
  cache.Record(a);
  EXPECT_EQ(cache.Cached(Join(TokenSpan(a).first(50), MakeTokens(5, 2))), 50U);
}

TEST(WindowTest, TheDeepestBoundaryWithAWholeWindowIsFound) {
  TestCache cache(WindowOptions());
  const Tokens a = MakeTokens(100, 1);
  cache.Record(TokenSpan(a).first(30));
  cache.Record(a, {.window_available_from = 60});
  EXPECT_EQ(cache.Cached(Join(a, MakeTokens(5, 2))), 100U);
  EXPECT_EQ(cache.Cached(Join(TokenSpan(a).first(80), MakeTokens(5, 2))), 80U);
  // 79 would need row 59, which the ring had forgotten: the next one down is the first record's
  // end.
  const LookupResult result = cache.Lookup(Join(TokenSpan(a).first(79), MakeTokens(5, 2)));
  EXPECT_EQ(result.hit->boundary(), 30U);
  EXPECT_EQ(result.reason, MissReason::kNoBoundaryState);
}

TEST(WindowTest, RowsInsideAreThinnedBeforeAnythingElseIsLost) {
  CacheOptions options = WindowOptions();
  options.max_bytes = 200 * kRow + 60 * 8;
  TestCache cache(options);
  const Tokens a = MakeTokens(200, 1);
  for (Pos n = 20; n <= 200; n += 20) {
    ASSERT_EQ(cache.Record(TokenSpan(a).first(n), {.prompt_end = false}), RecordOutcome::kPlanned);
  }
  EXPECT_EQ(cache.Cached(Join(a, MakeTokens(5, 2))), 200U);
  EXPECT_EQ(cache->Stats().evicted_tokens, 0U);
  EXPECT_TRUE(cache->SelfCheck());
}

// ---- bit-exact

class BitExactTest : public ::testing::Test {
 protected:
  Pos Bit(TestCache& cache, TokenSpan tokens) {
    LookupQuery query = QueryOf(cache, tokens);
    query.exactness = Exactness::kBit;
    query.grid = 8;
    const LookupResult result = cache->Lookup(query);
    if (!result.hit) return 0;
    EXPECT_EQ(CheckHit(*result.hit, tokens, cache->options().shape, true), "");
    return result.hit->boundary();
  }
};

TEST_F(BitExactTest, OnlyGridRowsAtGridBoundariesAreReturned) {
  TestCache cache(DenseOptions());
  const Tokens a = MakeTokens(40, 1);
  cache.Record(TokenSpan(a).first(16), {.provenance = Provenance::kGrid});
  cache.Record(TokenSpan(a).first(20), {.provenance = Provenance::kPrefill});
  cache.Record(a, {.provenance = Provenance::kDecode});
  EXPECT_EQ(cache.Cached(a), 39U);
  EXPECT_EQ(Bit(cache, a), 16U);
  EXPECT_EQ(Bit(cache, TokenSpan(a).first(15)), 8U);
}

TEST_F(BitExactTest, GridRowsReplaceWeakerOnesUnderLivePins) {
  TestCache cache(DenseOptions());
  const Tokens a = MakeTokens(24, 1);
  cache.Record(a, {.provenance = Provenance::kDecode});
  const LookupResult before = cache.Lookup(a);
  ASSERT_TRUE(before.hit);
  EXPECT_EQ(cache.Record(a, {.provenance = Provenance::kGrid}), RecordOutcome::kPlanned);
  EXPECT_EQ(CheckHit(*before.hit, a, cache->options().shape, false), "");
  EXPECT_EQ(before.hit->kv()[0].block[0],
            Payload(a, 1, Component::kKv, Provenance::kDecode, kRow)[0]);
  EXPECT_EQ(Bit(cache, Join(a, a)), 24U);
  EXPECT_EQ(cache.Record(a, {.provenance = Provenance::kPrefill}), RecordOutcome::kNothingNew);
}

TEST_F(BitExactTest, AResultOffTheGridIsNotReturned) {
  TestCache cache(DenseOptions());
  const Tokens a = MakeTokens(20, 1);
  cache.Record(a, {.provenance = Provenance::kGrid, .logits = true});
  EXPECT_EQ(Bit(cache, a), 16U);
  const Tokens b = MakeTokens(16, 2);
  cache.Record(b, {.provenance = Provenance::kGrid, .logits = true});
  EXPECT_EQ(Bit(cache, b), 16U);
  const Tokens c = MakeTokens(16, 3);
  cache.Record(c, {.provenance = Provenance::kPrefill, .logits = true});
  EXPECT_EQ(Bit(cache, c), 0U);
}

TEST_F(BitExactTest, WithoutAGridNothingIsReturned) {
  TestCache cache(DenseOptions());
  const Tokens a = MakeTokens(20, 1);
  cache.Record(a, {.provenance = Provenance::kGrid});
  LookupQuery query = QueryOf(cache, a);
  query.exactness = Exactness::kBit;
  EXPECT_FALSE(cache->Lookup(query).hit);
}

}  // namespace
}  // namespace skippy::cache
