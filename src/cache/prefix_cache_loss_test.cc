// Eviction, pins, condemnation, clearing and the latch, through the facade.
#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>

#include "cache/cache_impl.h"
#include "cache/cache_testing.h"
#include "skippy/prefix_cache.h"

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

TEST(EvictionTest, LogitsThatWereHitOutliveOthers) {
  CacheOptions options = DenseOptions();
  options.max_logits_bytes = 80;  // exactly two results
  TestCache cache(options);
  cache.Record(MakeTokens(10, 1), {.logits = true});
  EXPECT_TRUE(cache.Lookup(MakeTokens(10, 1)).hit->decoded_result());
  for (std::uint64_t i = 2; i <= 5; ++i) cache.Record(MakeTokens(10, i), {.logits = true});
  EXPECT_TRUE(cache.Lookup(MakeTokens(10, 1)).hit->decoded_result());
  EXPECT_TRUE(cache.Lookup(MakeTokens(10, 5)).hit->decoded_result());
  EXPECT_FALSE(cache.Lookup(MakeTokens(10, 4)).hit->decoded_result());
  EXPECT_EQ(cache->Stats().logits, 2U);
}

TEST(EvictionTest, LogitsHitLongAgoLoseTheirPrecedence) {
  CacheOptions options = DenseOptions();
  options.max_logits_bytes = 8 * 40;
  TestCache cache(options);
  for (std::uint64_t i = 1; i <= 8; ++i) {
    cache.Record(MakeTokens(10, i), {.logits = true});
    cache.Lookup(MakeTokens(10, i));
  }
  // All were hit. Two newcomers must be able to stay side by side.
  cache.Record(MakeTokens(10, 9), {.logits = true});
  cache.Record(MakeTokens(10, 10), {.logits = true});
  for (std::uint64_t i = 1; i <= 10; ++i) {
    EXPECT_EQ(cache.Lookup(MakeTokens(10, i), true).hit->decoded_result(), i > 2) << i;
  }
}

TEST(EvictionTest, LogitsNobodyAskedForGoBeforeAnyRowsButTheNewestPrompts) {
  TestCache cache(DenseOptions(60 * kRow + 120));  // 60 rows and three results
  for (std::uint64_t i = 1; i <= 3; ++i) cache.Record(MakeTokens(20, i), {.logits = true});
  cache.Record(MakeTokens(80 / kRow, 4), {.prompt_end = false});  // as large as two results
  EXPECT_EQ(cache->Stats().logits, 1U);
  for (std::uint64_t i = 1; i <= 2; ++i) EXPECT_EQ(cache.Cached(MakeTokens(20, i), true), 19U);
  EXPECT_TRUE(cache.Lookup(MakeTokens(20, 3), true).hit->decoded_result());
}

TEST(EvictionTest, SnapshotsToSpareGoBeforeTheEndOfAnyConversation) {
  CacheOptions options = HybridOptions();
  options.max_bytes = 4 * options.shape.snapshot_bytes + 56 * kRow;
  TestCache cache(options);
  const Tokens old = MakeTokens(16, 1);
  cache.Record(old);
  const Tokens busy = MakeTokens(24, 2);
  cache.Record(TokenSpan(busy).first(8), {.prompt_end = false});  // for spacing
  cache.Record(TokenSpan(busy).first(16), {.prompt_end = false, .part_start = true});
  cache.Record(busy);
  cache.Record(MakeTokens(16, 3));
  // The fifth snapshot took the place of the spaced one, and not of what was used before it.
  EXPECT_EQ(cache->Stats().snapshots, 4U);
  EXPECT_EQ(cache.Cached(Join(old, MakeTokens(4, 9)), true), 16U);
  EXPECT_EQ(cache.Cached(Join(TokenSpan(busy).first(12), MakeTokens(4, 9)), true), 0U);
  EXPECT_EQ(cache.Cached(Join(TokenSpan(busy).first(20), MakeTokens(4, 9)), true), 16U);
  EXPECT_EQ(cache.Cached(Join(busy, MakeTokens(4, 9)), true), 24U);
}

TEST(EvictionTest, AConversationThatWentOnAtItsEndNeedsNoStepBack) {
  CacheOptions options = HybridOptions();
  options.max_bytes = 3 * options.shape.snapshot_bytes + 72 * kRow;
  TestCache cache(options);
  const Tokens old = MakeTokens(16, 1);
  cache.Record(old);
  Tokens busy = MakeTokens(16, 2);
  cache.Record(busy);
  for (std::uint64_t turn = 0; turn < 3; ++turn) {
    busy = Join(busy, MakeTokens(8, 10 + turn));
    EXPECT_EQ(cache.Cached(busy), busy.size() - 8);
    const Pos start = static_cast<Pos>(busy.size() - 4);
    cache.Record(TokenSpan(busy).first(start), {.prompt_end = false, .part_start = true});
    cache.Record(busy);
  }
  EXPECT_EQ(cache.Cached(Join(old, MakeTokens(4, 9)), true), 16U);
  cache.Record(MakeTokens(16, 3));
  EXPECT_EQ(cache.Cached(Join(old, MakeTokens(4, 9)), true), 16U);
  EXPECT_EQ(cache.Cached(Join(busy, MakeTokens(4, 9)), true), busy.size());
}

// A conversation of four turns, each resumed at the end of the one before, and one that came once.
class HabitTest : public testing::Test {
 protected:
  static CacheOptions Options() {
    CacheOptions options = HybridOptions();
    options.max_bytes = 3 * options.shape.snapshot_bytes + 80 * kRow;
    return options;
  }
  void SetUp() override {
    for (std::uint64_t turn = 0; turn < 5; ++turn) {
      talk_ = Join(talk_, MakeTokens(turn == 0 ? 16 : 8, 10 + turn));
      EXPECT_EQ(cache_.Cached(talk_), turn == 0 ? 0U : talk_.size() - 8);
      cache_.Record(talk_);
    }
    cache_.Record(old_);
  }
  // A prompt with a message start in the middle, as `serve` records it.
  void Begin(const Tokens& prompt) {
    cache_.Record(TokenSpan(prompt).first(8), {.prompt_end = false, .part_start = true});
    cache_.Record(prompt);
  }
  Pos EndOf(const Tokens& text) { return cache_.Cached(Join(text, MakeTokens(4, 9)), true); }

  TestCache cache_{Options()};
  Tokens talk_;
  const Tokens old_ = MakeTokens(16, 1);
  const Tokens fresh_ = MakeTokens(16, 2);
};

TEST_F(HabitTest, WhereTextsGoOnAtTheirEndsANewOneNeedsNoStepBack) {
  Begin(fresh_);
  EXPECT_EQ(cache_->Stats().snapshots, 3U);
  for (const Tokens& text : {talk_, old_, fresh_}) EXPECT_EQ(EndOf(text), text.size());
}

TEST_F(HabitTest, WhereTextsAreLeftBeforeTheirEndsANewOneKeepsItsStepBack) {
  EXPECT_EQ(cache_.Cached(Join(TokenSpan(old_).first(12), MakeTokens(4, 8))), 0U);
  Begin(fresh_);
  EXPECT_EQ(EndOf(fresh_), 16U);
  EXPECT_EQ(cache_.Cached(Join(TokenSpan(fresh_).first(12), MakeTokens(4, 8)), true), 8U);
}

TEST_F(HabitTest, ATextThatOnlyBeginsAlikeSaysNothing) {
  EXPECT_EQ(cache_.Cached(Join(TokenSpan(old_).first(4), MakeTokens(8, 8))), 0U);
  Begin(fresh_);
  for (const Tokens& text : {talk_, old_, fresh_}) EXPECT_EQ(EndOf(text), text.size());
}

// Each further question goes on at the end of the run that they share: nobody's end.
TEST(EvictionTest, QuestionsOnADocumentDoNotSayThatTextsGoOnAtTheirEnds) {
  CacheOptions options = HybridOptions();
  options.max_bytes = 3 * options.shape.snapshot_bytes + 80 * kRow;
  TestCache cache(options);
  const auto ask = [&](const Tokens& document, std::uint64_t question) {
    const Tokens prompt = Join(document, MakeTokens(8, question));
    const Pos cached = cache.Cached(prompt);
    if (cached < document.size()) cache.Record(document, {.prompt_end = false, .part_start = true});
    cache.Record(prompt);
    return cached;
  };
  const Tokens first = MakeTokens(16, 1);
  EXPECT_EQ(ask(first, 10), 0U);
  for (std::uint64_t question = 11; question < 20; ++question) EXPECT_EQ(ask(first, question), 16U);
  const Tokens second = MakeTokens(16, 2);
  EXPECT_EQ(ask(second, 20), 0U);
  EXPECT_EQ(ask(second, 21), 16U);
}

TEST_F(HabitTest, ATextThatIsLeftBeforeItsEndKeepsAStepBackFromThenOn) {
  EXPECT_EQ(cache_.Cached(Join(talk_, MakeTokens(4, 8))), talk_.size());
  Begin(fresh_);
  const Tokens next = MakeTokens(16, 3);
  EXPECT_EQ(cache_.Cached(TokenSpan(fresh_).first(12)), 0U);
  Begin(fresh_);  // its message start comes back
  cache_.Record(next);
  EXPECT_EQ(cache_.Cached(TokenSpan(fresh_).first(12), true), 8U);
}

TEST(EvictionTest, LogitsOverTheirCapAreLeftOut) {
  CacheOptions options = DenseOptions();
  options.max_logits_bytes = 40;
  TestCache fits(options);
  fits.Record(MakeTokens(10, 1), {.logits = true});
  EXPECT_EQ(fits->Stats().logits, 1U);
  options.max_logits_bytes = 39;
  TestCache too_large(options);
  EXPECT_EQ(too_large.Record(MakeTokens(10, 1), {.logits = true}), RecordOutcome::kPlanned);
  EXPECT_EQ(too_large->Stats().logits, 0U);
  EXPECT_EQ(too_large.Record(MakeTokens(10, 1), {.logits = true}), RecordOutcome::kNothingNew);
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
    const std::size_t cut = 1 + SplitMix64(i) % 99;
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

TEST(CondemnTest, PartsOfAHitLeaveShorterOnes) {
  TestCache cache(DenseOptions());
  const Tokens a = MakeTokens(60, 1);
  cache.Record(a);
  LookupResult found = cache.Lookup(a);
  const std::span<const RowSlice> slices = found.hit->kv();
  ASSERT_GE(slices.size(), 3U);
  const Pos before = slices[slices.size() - 2].positions.begin;
  // Indices that the hit does not have are no parts of it.
  const HitParts parts{{slices.size() - 2, slices.size()}, {0}, true};
  cache->Condemn(std::move(*found.hit), parts);
  found.hit.reset();
  EXPECT_EQ(cache.Cached(a), before);
  EXPECT_TRUE(cache->SelfCheck());
  cache.Record(a);
  EXPECT_EQ(cache.Cached(a), 59U);
}

TEST(CondemnTest, ALostSnapshotLeavesTheRowsAndTheOneBeforeIt) {
  TestCache cache(HybridOptions());
  const Tokens a = MakeTokens(60, 1);
  for (const Pos n : {20U, 40U, 60U}) cache.Record(TokenSpan(a).first(n));
  const Tokens longer = Join(a, MakeTokens(2, 2));
  LookupResult found = cache.Lookup(longer);
  ASSERT_EQ(found.hit->boundary(), 60U);
  cache->Condemn(std::move(*found.hit), {{}, {}, true});
  found.hit.reset();
  EXPECT_EQ(cache.Cached(longer), 40U);
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
