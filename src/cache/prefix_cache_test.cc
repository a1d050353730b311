#include "skippy/prefix_cache.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>
#include <set>
#include <type_traits>

#include "cache/cache_impl.h"
#include "cache/cache_testing.h"

namespace skippy::cache {

// Reaches into the implementation to break it on purpose.
struct CacheTestPeer {
  static void Miscount(CacheImpl& impl) {
    Footprint extra;
    extra[Component::kKv] = ~std::uint64_t{0} / 2;
    impl.store_->Reserve(NamespaceSlot{0}, extra);
  }
};

namespace {

constexpr std::uint64_t kRow = 16;

CacheOptions DenseOptions(std::uint64_t max_bytes = 1 << 20) {
  CacheOptions options;
  options.shape.kv_row_bytes = kRow;
  options.shape.logits_bytes = 40;
  options.page_tokens = 8;
  options.max_bytes = max_bytes;
  return options;
}

CacheOptions HybridOptions() {
  CacheOptions options = DenseOptions();
  options.shape.snapshot_bytes = 100;
  return options;
}

CacheOptions WindowOptions() {
  CacheOptions options = DenseOptions();
  options.shape.window_row_bytes = 8;
  options.shape.window_tokens = 20;
  return options;
}

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

// ---- eviction and pins

TEST(EvictionTest, AHitIsNeverEvictedWhileItIsHeld) {
  TestCache cache(DenseOptions(24 * kRow));
  const Tokens a = MakeTokens(16, 1);
  cache.Record(a);
  {
    const LookupResult held = cache.Lookup(Join(a, a));
    ASSERT_EQ(held.hit->boundary(), 16U);
    EXPECT_EQ(cache.Record(MakeTokens(16, 2)), RecordOutcome::kNoRoom);
    EXPECT_EQ(cache.Record(MakeTokens(8, 2)), RecordOutcome::kPlanned);
    EXPECT_EQ(cache.Cached(a), 15U);
  }
  EXPECT_EQ(cache.Record(MakeTokens(24, 3)), RecordOutcome::kPlanned);
  EXPECT_EQ(cache.Cached(a), 0U);
}

TEST(EvictionTest, TheEntryCapHolds) {
  CacheOptions options = DenseOptions();
  options.max_entries = 5;
  TestCache cache(options);
  for (std::uint64_t i = 1; i < 20; ++i) {
    ASSERT_EQ(cache.Record(MakeTokens(10, i)), RecordOutcome::kPlanned);
    EXPECT_LE(cache->Stats().entries, 5U);
  }
  EXPECT_EQ(cache.Cached(MakeTokens(10, 19)), 9U);
  EXPECT_TRUE(cache->SelfCheck());
}

TEST(EvictionTest, ANamespaceAtItsCapEvictsItsOwn) {
  CacheOptions options = DenseOptions(100 * kRow);
  options.max_namespace_bytes = 30 * kRow;
  TestCache cache(options);
  const Namespace first = cache.ns;
  cache.Record(MakeTokens(30, 1));
  cache.ns = Namespace{Blake3(std::as_bytes(std::span("other")))};
  cache.Record(MakeTokens(20, 2));
  cache.Record(MakeTokens(20, 3));
  EXPECT_EQ(cache.Record(MakeTokens(31, 4)), RecordOutcome::kTooLarge);
  EXPECT_LT(cache.Cached(MakeTokens(20, 2)), 19U);
  EXPECT_EQ(cache.Cached(MakeTokens(20, 3)), 19U);
  cache.ns = first;
  EXPECT_EQ(cache.Cached(MakeTokens(30, 1)), 29U);
  EXPECT_TRUE(cache->SelfCheck());
}

TEST(EvictionTest, LogitsHaveACapOfTheirOwn) {
  CacheOptions options = DenseOptions();
  options.max_logits_bytes = 100;  // two results of 40
  TestCache cache(options);
  for (std::uint64_t i = 1; i <= 3; ++i) cache.Record(MakeTokens(10, i), {.logits = true});
  EXPECT_EQ(cache->Stats().logits, 2U);
  EXPECT_EQ(cache->Stats().evicted_logits, 1U);
  EXPECT_FALSE(cache.Lookup(MakeTokens(10, 1)).hit->decoded_result());
  EXPECT_TRUE(cache.Lookup(MakeTokens(10, 2)).hit->decoded_result());
  EXPECT_TRUE(cache.Lookup(MakeTokens(10, 3)).hit->decoded_result());
}

TEST(EvictionTest, TheNewestPromptEndIsNotTheFirstToGo) {
  for (const auto kind : {EvictionPolicyKind::kLru, EvictionPolicyKind::kBenefitPerByte}) {
    CacheOptions options = HybridOptions();
    options.eviction = kind;
    options.max_bytes = 3 * (16 * kRow + 100);
    TestCache cache(options);
    cache.Record(MakeTokens(16, 1), {.prompt_end = false});
    cache.Record(MakeTokens(16, 2), {.prompt_end = false});
    cache.Record(MakeTokens(4, 3), {.prompt_end = true});  // the least benefit per byte of all
    cache.Record(MakeTokens(16, 4), {.prompt_end = false});
    EXPECT_EQ(cache.Cached(Join(MakeTokens(4, 3), MakeTokens(4, 9))), 4U);
  }
}

TEST(EvictionTest, APinnedPrefixStaysUntilItIsUnpinned) {
  TestCache cache(DenseOptions(32 * kRow));
  const Tokens a = MakeTokens(24, 1);
  cache.Record(a);
  ASSERT_TRUE(cache->PinPrefix(cache.ns, TokenSpan(a).first(16)));
  ASSERT_TRUE(cache->PinPrefix(cache.ns, TokenSpan(a).first(16)));  // once is enough
  for (std::uint64_t i = 2; i < 10; ++i) cache.Record(MakeTokens(16, i));
  EXPECT_EQ(cache.Cached(a), 16U);
  EXPECT_TRUE(cache->UnpinPrefix(cache.ns, TokenSpan(a).first(16)));
  EXPECT_EQ(cache->UnpinPrefix(cache.ns, TokenSpan(a).first(16)).error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(cache->Stats().pinned_blocks, 0U);
  cache.Record(MakeTokens(32, 99));
  EXPECT_EQ(cache.Cached(a), 0U);
}

TEST(EvictionTest, OnlyKnownTextCanBePinned) {
  TestCache cache(HybridOptions());
  const Tokens a = MakeTokens(24, 1);
  EXPECT_EQ(cache->PinPrefix(cache.ns, a).error().code, ErrorCode::kNotFound);
  cache.Record(a, {.snapshot = false});
  EXPECT_EQ(cache->PinPrefix(cache.ns, a).error().code, ErrorCode::kNotFound);  // nothing usable
  EXPECT_EQ(cache->PinPrefix(cache.ns, Join(a, a)).error().code, ErrorCode::kNotFound);
  cache.Record(a);
  EXPECT_TRUE(cache->PinPrefix(cache.ns, a));
}

TEST(EvictionTest, BranchesThatComeAndGoLeaveNoChainBehind) {
  TestCache cache(DenseOptions(200 * kRow));
  const Tokens base = MakeTokens(100, 1);
  cache.Record(base);
  for (std::uint64_t i = 0; i < 50; ++i) {
    cache.Lookup(base);
    const std::size_t cut = 1 + Mix(i) % 99;
    cache.Record(Join(TokenSpan(base).first(cut), MakeTokens(30, 100 + i)));
  }
  EXPECT_EQ(cache.Cached(base), 99U);
  EXPECT_LE(cache->Stats().entries, 20U);
  EXPECT_TRUE(cache->SelfCheck());
}

TEST(EvictionTest, FavouritesThatFillTheCacheLoseTheirPrecedence) {
  TestCache cache(DenseOptions(100 * kRow));
  for (std::uint64_t i = 1; i <= 5; ++i) {
    cache.Record(MakeTokens(20, i));
    cache.Lookup(MakeTokens(20, i));
  }
  // All room is taken by prompts that were hit; newcomers push out the oldest of them, not each
  // other.
  cache.Record(MakeTokens(20, 6));
  cache.Record(MakeTokens(20, 7));
  EXPECT_EQ(cache.Cached(MakeTokens(20, 7), true), 19U);
  EXPECT_EQ(cache.Cached(MakeTokens(20, 6), true), 19U);
  EXPECT_EQ(cache.Cached(MakeTokens(20, 5), true), 19U);
}

// ---- condemn, clear, latch

TEST(CondemnTest, WhatTheHitWasMadeOfIsNotReturnedAgain) {
  TestCache cache(DenseOptions());
  const Tokens base = MakeTokens(20, 1);
  const Tokens a = Join(base, MakeTokens(10, 2));
  const Tokens b = Join(base, MakeTokens(10, 3));
  cache.Record(a);
  cache.Record(b);
  cache->Condemn(std::move(*cache.Lookup(a).hit));
  EXPECT_EQ(cache.Cached(a), 0U);
  const LookupResult other = cache.Lookup(b);  // shares the condemned base
  EXPECT_FALSE(other.hit);
  EXPECT_EQ(other.reason, MissReason::kCorrupt);
  EXPECT_TRUE(cache->SelfCheck());
  EXPECT_EQ(cache->Stats().condemned, 1U);
  // A cold run fills the hole, and the other branch is whole again.
  cache.Record(a);
  EXPECT_EQ(cache.Cached(a), 29U);
  EXPECT_EQ(cache.Cached(b), 29U);
}

TEST(CondemnTest, OnlyTheSnapshotOfARecurrentHitIsLost) {
  CacheOptions options = HybridOptions();
  options.shape.kv_row_bytes = 0;
  TestCache cache(options);
  const Tokens a = MakeTokens(60, 1);
  for (const Pos n : {20U, 40U, 60U}) cache.Record(TokenSpan(a).first(n));
  cache->Condemn(std::move(*cache.Lookup(Join(TokenSpan(a).first(40), MakeTokens(2, 2))).hit));
  EXPECT_EQ(cache.Cached(Join(TokenSpan(a).first(40), MakeTokens(2, 2))), 20U);
  EXPECT_EQ(cache.Cached(Join(a, MakeTokens(2, 2))), 60U);
  EXPECT_TRUE(cache->SelfCheck());
}

TEST(CondemnTest, EqualBlocksElsewhereAreCondemnedToo) {
  TestCache cache(DenseOptions());
  const Tokens a = MakeTokens(16, 1);
  cache.Record(a);
  const Namespace first = cache.ns;
  cache.ns = Namespace{Blake3(std::as_bytes(std::span("other")))};
  cache.Record(a);  // the same bytes, so the same blocks
  LookupResult hit = cache.Lookup(a);
  cache->Condemn(std::move(*hit.hit));
  hit.hit.reset();
  cache.ns = first;
  EXPECT_EQ(cache.Cached(a), 0U);
  EXPECT_EQ(cache->Stats().physical_bytes, 0U);
  EXPECT_TRUE(cache->SelfCheck());
}

TEST(ClearTest, EverythingGoesButWhatAHitHolds) {
  TestCache cache(DenseOptions());
  const Tokens a = MakeTokens(16, 1);
  cache.Record(a);
  cache.Record(MakeTokens(50, 2));
  ASSERT_TRUE(cache->PinPrefix(cache.ns, a));
  {
    const LookupResult held = cache.Lookup(Join(a, a));
    cache->Clear();
    EXPECT_EQ(cache->Stats().entries, 0U);
    EXPECT_EQ(cache->Stats().physical_bytes, 16 * kRow);
    EXPECT_EQ(CheckHit(*held.hit, Join(a, a), cache->options().shape, false), "");
  }
  EXPECT_EQ(cache->Stats().physical_bytes, 0U);
  EXPECT_EQ(cache.Lookup(a).reason, MissReason::kNeverSeen);
}

TEST(ClearTest, OtherNamespacesStay) {
  TestCache cache(DenseOptions());
  const Namespace first = cache.ns;
  cache.Record(MakeTokens(16, 1));
  cache.ns = Namespace{Blake3(std::as_bytes(std::span("other")))};
  cache.Record(MakeTokens(16, 2));
  cache->ClearNamespace(first);
  EXPECT_EQ(cache.Cached(MakeTokens(16, 2)), 15U);
  cache.ns = first;
  EXPECT_EQ(cache.Cached(MakeTokens(16, 1)), 0U);
}

// Runs `body` on a stack far too small for a recursion over the nodes of one path.
void RunOnSmallStack(std::function<void()> body) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 << 10), 0);
  pthread_t thread{};
  const auto run = [](void* argument) -> void* {
    (*static_cast<std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &body), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

TEST(ClearTest, ADeepTreeNeedsNoStack) {
  CacheOptions options = DenseOptions(1 << 30);
  options.shape.kv_row_bytes = 1;
  options.page_tokens = 64;
  constexpr std::size_t kDepth = 12'000;
  RunOnSmallStack([&] {
    TestCache cache(options);
    const Tokens base = MakeTokens(kDepth, 1);
    cache.Record(base);
    // A branch at every token: as many runs as tokens on one path.
    for (std::size_t cut = kDepth - 1; cut > 0; --cut) {
      Tokens branch(base.begin(), base.begin() + static_cast<std::ptrdiff_t>(cut));
      branch.push_back(base[cut] + 1);
      RecordPlan plan = cache.Begin(branch);
      ASSERT_TRUE(cache->Commit(std::move(*plan.ticket)));
    }
    EXPECT_EQ(cache->Stats().entries, 2 * kDepth - 1);
    EXPECT_EQ(cache.Lookup(base).hit->boundary(), kDepth - 1);
    EXPECT_TRUE(cache->SelfCheck());
    cache->Clear();
    EXPECT_EQ(cache->Stats().entries, 0U);
  });
}

TEST(LatchTest, ABrokenInvariantTurnsTheCacheOff) {
  CacheImpl impl(DenseOptions());
  const Tokens a = MakeTokens(16, 1);
  RecordRequest request;
  request.tokens = a;
  RecordPlan plan = impl.BeginRecord(request);
  ASSERT_TRUE(plan.ticket);
  CacheTestPeer::Miscount(impl);
  const Status checked = impl.SelfCheck();
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kInternal);
  EXPECT_EQ(impl.Stats().latched, checked.error().message);
  LookupQuery query;
  query.tokens = a;
  query.max_boundary = 15;
  EXPECT_EQ(impl.Lookup(query).reason, MissReason::kDisabled);
  EXPECT_EQ(impl.BeginRecord(request).outcome, RecordOutcome::kDisabled);
  EXPECT_EQ(impl.Commit(CacheImpl::Take(*plan.ticket)).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(impl.PinPrefix({}, a).error().code, ErrorCode::kUnavailable);
  impl.Clear();
}

TEST(LatchTest, PolicyOffMissesWithDisabled) {
  CacheOptions options = DenseOptions();
  options.policy = PayloadPolicy::kOff;
  TestCache cache(options);
  EXPECT_EQ(cache.Record(MakeTokens(16, 1)), RecordOutcome::kDisabled);
  EXPECT_EQ(cache.Lookup(MakeTokens(16, 1)).reason, MissReason::kDisabled);
  EXPECT_EQ(cache->Stats().misses_by_reason[static_cast<std::size_t>(MissReason::kDisabled)], 1U);
}

}  // namespace
}  // namespace skippy::cache
