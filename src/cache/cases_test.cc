// What went wrong with prompt caches in the field, as sequences of requests against the core. Each
// comment names the fault; sizes are scaled down.
#include <gtest/gtest.h>

#include <algorithm>

#include "cache/cache_testing.h"
#include "skippy/snapshot_planner.h"

namespace skippy::cache {
namespace {

CacheOptions Options(const MemoryShape& shape, std::uint64_t max_bytes,
                     std::uint32_t page_tokens = 64) {
  CacheOptions options;
  options.shape = shape;
  options.max_bytes = max_bytes;
  options.page_tokens = page_tokens;
  return options;
}

constexpr MemoryShape kDense{.kv_row_bytes = 8};
constexpr MemoryShape kHybrid{.kv_row_bytes = 1, .snapshot_bytes = 10'000};
constexpr MemoryShape kRecurrent{.snapshot_bytes = 10'000};
constexpr MemoryShape kWindow{.kv_row_bytes = 8, .window_row_bytes = 8, .window_tokens = 256};

struct ServeWish {
  std::vector<Pos> message_starts{};
  Pos grid = 0;
  Pos spacing = 0;
};

// A request as the engine serves it: resume, prefill from boundary to boundary, record at each.
// Returns the tokens that were cached.
Pos Serve(TestCache& cache, const Tokens& tokens, const ServeWish& wish = {}) {
  const LookupResult result = cache.Lookup(tokens);
  const Pos resume = result.hit ? result.hit->boundary() : 0;
  if (result.hit) {
    EXPECT_EQ(CheckHit(*result.hit, tokens, cache->options().shape, false), "");
  }
  std::vector<Pos> junctions;
  if (result.first_different > resume && result.first_different < tokens.size()) {
    junctions.push_back(result.first_different);
  }
  const SnapshotPlanInput input{.resume = resume,
                                .prompt_end = static_cast<Pos>(tokens.size()),
                                .message_starts = wish.message_starts,
                                .junctions = junctions,
                                .grid = wish.grid,
                                .spacing = wish.spacing};
  for (const Pos end : PlanSnapshots(input)) {
    cache.Record(TokenSpan(tokens).first(end), {.prompt_end = end == tokens.size()});
  }
  const Status ok = cache->SelfCheck();
  EXPECT_TRUE(ok) << ok.error().message;
  return resume;
}

// 7 ckpt-window: checkpoints at every turn crowd out the ones further back.
TEST(Case, CkptWindow) {
  TestCache cache(Options(kHybrid, 4 * kHybrid.snapshot_bytes + 5'000));
  const Tokens system = MakeTokens(1000, 1);
  Tokens history = system;
  std::vector<Pos> starts{0, 1000};
  for (std::uint64_t turn = 0; turn < 10; ++turn) {
    const Tokens more = MakeTokens(40, 10 + turn);
    history.insert(history.end(), more.begin(), more.end());
    const Pos cached = Serve(cache, history, {.message_starts = starts, .spacing = 256});
    // The newest prompt end is never thinned away.
    EXPECT_EQ(cached, turn > 0 ? history.size() - 40 : 0);
    starts.push_back(static_cast<Pos>(history.size()));
  }
  EXPECT_EQ(cache->Stats().snapshots, 4U);
  // Evenly covered: no rewind costs more than two of the gaps that four snapshots can leave at
  // best.
  for (Pos cut = 100; cut < history.size(); cut += 100) {
    const Pos cached = cache.Cached(Join(TokenSpan(history).first(cut), MakeTokens(20, 99)), true);
    EXPECT_LE(cut - cached, 2 * history.size() / 4) << cut;
  }
  EXPECT_GE(cache.Cached(Join(system, MakeTokens(20, 99)), true),
            500U);  // one near the end of the system text
  const Tokens branch = Join(TokenSpan(system).first(600), MakeTokens(50, 99));
  EXPECT_GT(Serve(cache, branch), 0U);
}

// 9 ckpt-fifo: many tiny tool steps use up the ring; a rewind then finds nothing.
TEST(Case, CkptFifo) {
  TestCache cache(Options(kHybrid, 8 * kHybrid.snapshot_bytes + 5'000));
  Tokens history = MakeTokens(200, 1);
  for (std::uint64_t step = 0; step < 20; ++step) {
    const Tokens more = MakeTokens(20, 10 + step);
    history.insert(history.end(), more.begin(), more.end());
    Serve(cache, history);
  }
  const Tokens before_answer = history;
  const Tokens answer = MakeTokens(400, 50);
  cache.Record(Join(history, answer), {.provenance = Provenance::kDecode, .prompt_end = false});
  const Tokens replay = Join(Join(before_answer, MakeTokens(100, 51)), MakeTokens(20, 52));
  EXPECT_EQ(cache.Cached(replay, true), before_answer.size());
  // And further back: half of any rewound prompt is still there.
  for (Pos cut = 300; cut < before_answer.size(); cut += 50) {
    EXPECT_GE(2 * cache.Cached(Join(TokenSpan(before_answer).first(cut), MakeTokens(9, 60)), true),
              cut);
  }
}

// 11 align-unique: the last aligned point lies in text of the request's own, so nothing is ever
// shared.
TEST(Case, AlignUnique) {
  TestCache cache(Options(kHybrid, 1 << 24));
  const Tokens system = MakeTokens(500, 1);
  for (std::uint64_t i = 0; i < 10; ++i) {
    const Pos cached =
        Serve(cache, Join(system, MakeTokens(120, 10 + i)), {.grid = 256, .spacing = 256});
    // The second request meets the junction and keeps a snapshot there.
    EXPECT_EQ(cached, i == 0 ? 0U : i == 1 ? 256U : 500U);
  }
}

// 15 walkback: the last fully shared block is dropped because its state is a place-holder.
TEST(Case, Walkback) {
  for (const MemoryShape& shape : {kDense, kHybrid, kRecurrent}) {
    TestCache cache(Options(shape, 1 << 24));
    const Tokens first = Join(MakeTokens(4 * 64, 1), MakeTokens(1, 2));
    for (const Pos n : {64U, 128U, 192U, 256U, 257U}) cache.Record(TokenSpan(first).first(n));
    EXPECT_EQ(cache.Cached(Join(TokenSpan(first).first(256), MakeTokens(1, 3))), 4 * 64U);
    EXPECT_EQ(cache.Cached(Join(TokenSpan(first).first(255), MakeTokens(1, 3))),
              shape.HasSnapshot() ? 192U : 255U);
  }
}

// The same where no snapshot was taken there: the second prompt meets the junction, the third
// profits.
TEST(Case, WalkbackIsLearned) {
  TestCache cache(Options(kHybrid, 1 << 24));
  const Tokens shared = MakeTokens(4 * 64, 1);
  Serve(cache, Join(shared, MakeTokens(1, 2)));
  Serve(cache, Join(shared, MakeTokens(1, 3)));
  EXPECT_EQ(Serve(cache, Join(shared, MakeTokens(1, 4))), 4 * 64U);
}

// 5 (K1) rnn-same: the same prompt again and again stores nothing new.
TEST(Case, RnnSame) {
  TestCache cache(Options(kRecurrent, 1 << 24));
  const Tokens prompt = MakeTokens(400, 1);
  cache.Record(TokenSpan(prompt).first(399));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cache.Cached(prompt), 399U);
    EXPECT_EQ(cache.Record(TokenSpan(prompt).first(399)), RecordOutcome::kNothingNew);
  }
  EXPECT_EQ(cache->Stats().snapshots, 1U);
}

// 29 alt-agents: two prompts that share a tenth take turns; no checkpoint of one is applied to the
// other.
TEST(Case, AltAgents) {
  TestCache cache(Options(kHybrid, 1 << 24));
  const Tokens common = MakeTokens(70, 1);
  Tokens a = Join(common, MakeTokens(700, 2));
  Tokens b = Join(common, MakeTokens(700, 3));
  Serve(cache, a, {.spacing = 128});
  EXPECT_LE(Serve(cache, b, {.spacing = 128}), 70U);
  for (std::uint64_t turn = 0; turn < 4; ++turn) {
    for (Tokens* agent : {&a, &b}) {
      const Pos known = static_cast<Pos>(agent->size());
      const Tokens more = MakeTokens(30, 10 + turn);
      agent->insert(agent->end(), more.begin(), more.end());
      EXPECT_EQ(Serve(cache, *agent, {.spacing = 128}), known);
    }
  }
}

// 31 sweep: a batch of one-shot documents evicts the live chat.
TEST(Case, Sweep) {
  for (const MemoryShape& shape : {kDense, kHybrid}) {
    const std::uint64_t state = 300 * shape.kv_row_bytes + shape.snapshot_bytes;
    TestCache cache(Options(shape, 4 * state, 16));
    Tokens chat = MakeTokens(200, 1);
    for (std::uint64_t turn = 0; turn < 3; ++turn) {
      const Tokens more = MakeTokens(20, 5 + turn);
      chat.insert(chat.end(), more.begin(), more.end());
      Serve(cache, chat);
    }
    for (std::uint64_t doc = 0; doc < 32; ++doc) Serve(cache, MakeTokens(300, 100 + doc));
    EXPECT_EQ(Serve(cache, Join(chat, MakeTokens(20, 9))), chat.size());
  }
}

// 79 window-lie: an entry is keyed by a prefix whose window it does not hold.
TEST(Case, WindowLie) {
  TestCache cache(Options(kWindow, 1 << 24));
  const Tokens p = MakeTokens(1024, 1);
  ASSERT_EQ(cache.Record(p, {.window_available_from = 768}), RecordOutcome::kPlanned);
  const LookupResult early = cache.Lookup(Join(TokenSpan(p).first(31), MakeTokens(5, 2)));
  EXPECT_FALSE(early.hit);
  EXPECT_EQ(early.reason, MissReason::kNoBoundaryState);
  EXPECT_EQ(early.first_different, 31U);
  EXPECT_EQ(cache.Cached(Join(TokenSpan(p).first(1023), MakeTokens(5, 2))), 0U);  // needs row 767
  EXPECT_EQ(cache.Cached(Join(p, MakeTokens(5, 2))), 1024U);
}

// 83 half-block: the state at a chunk end is filed as the state of a full block.
TEST(Case, HalfBlock) {
  for (const MemoryShape& shape : {kRecurrent, kHybrid}) {
    TestCache cache(Options(shape, 1 << 24, 64));
    const Tokens p = MakeTokens(100, 1);
    cache.Record(TokenSpan(p).first(60));
    cache.Record(p);
    EXPECT_EQ(cache.Cached(Join(TokenSpan(p).first(64), MakeTokens(5, 2))), 60U);
    EXPECT_EQ(cache.Cached(Join(TokenSpan(p).first(59), MakeTokens(5, 2))), 0U);
    EXPECT_EQ(cache.Cached(Join(p, MakeTokens(5, 2))), 100U);
  }
}

// 89 donor-evicted: an entry that borrowed from a shared prefix is broken when the donor goes.
TEST(Case, DonorEvicted) {
  TestCache cache(Options(kHybrid, 6 * kHybrid.snapshot_bytes + 2'000, 16));
  const Tokens common = MakeTokens(150, 1);
  const Tokens a = Join(common, MakeTokens(50, 2));
  const Tokens b = Join(common, MakeTokens(50, 3));
  Serve(cache, a);
  Serve(cache, b);  // meets the junction; B's rows up to it are A's
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(Serve(cache, Join(b, MakeTokens(5, 20 + i))), 200U);
  }
  for (std::uint64_t i = 0; i < 8; ++i) Serve(cache, MakeTokens(200, 40 + i));
  EXPECT_LT(cache.Cached(Join(a, MakeTokens(5, 9)), true), 200U);  // A had to go
  EXPECT_EQ(Serve(cache, Join(b, MakeTokens(5, 30))), 200U);
}

// 95 too-big: a state over the budget is kept anyway and never evicted.
TEST(Case, TooBig) {
  TestCache cache(Options({.kv_row_bytes = 5'000}, 1 << 20));
  const Tokens small = MakeTokens(100, 1);
  cache.Record(small);
  EXPECT_EQ(cache.Record(MakeTokens(1024, 2)), RecordOutcome::kTooLarge);
  EXPECT_EQ(cache->Stats().records_refused_too_large, 1U);
  EXPECT_EQ(cache->Stats().physical_bytes, 500'000U);
  EXPECT_EQ(cache.Cached(small), 99U);  // and nothing was evicted for it
}

// 101 short-first: a score by tokens a byte removes short prefixes first, so the shared base goes.
TEST(Case, ShortFirst) {
  for (const auto kind : {EvictionPolicyKind::kLru, EvictionPolicyKind::kBenefitPerByte}) {
    CacheOptions options = Options(kDense, 700 * 8, 16);
    options.eviction = kind;
    TestCache cache(options);
    const Tokens base = MakeTokens(200, 1);
    Serve(cache, base);
    for (std::uint64_t i = 0; i < 20; ++i) {
      EXPECT_EQ(Serve(cache, Join(base, MakeTokens(200, 10 + i))), 200U) << i;
    }
    // Leaves before parents: the tail of an old branch is gone, its base is not.
    EXPECT_EQ(cache.Cached(Join(base, MakeTokens(200, 10)), true), 200U);
  }
}

// 107 evict-good: what was just loaded is thrown away before it is used.
TEST(Case, EvictGood) {
  TestCache cache(Options(kHybrid, 2 * kHybrid.snapshot_bytes + 1'000));
  const Tokens p = MakeTokens(200, 1);
  Serve(cache, p);
  const Tokens next = Join(p, MakeTokens(20, 2));
  {
    const LookupResult loaded = cache.Lookup(next);
    ASSERT_EQ(loaded.hit->boundary(), 200U);
    for (std::uint64_t i = 0; i < 8; ++i)
      Serve(cache, MakeTokens(200, 10 + i));  // pressure meanwhile
    EXPECT_EQ(CheckHit(*loaded.hit, next, kHybrid, false), "");
  }
  EXPECT_EQ(cache.Cached(next), 200U);
}

Digest FourBitDigest(ByteSpan bytes) {
  Digest digest = Blake3(bytes);
  digest.bytes[0] &= 15;
  std::fill(digest.bytes.begin() + 1, digest.bytes.end(), std::uint8_t{0});
  return digest;
}

// 119 hash: a weak hash as the only key returns another prompt's state.
TEST(Case, Hash) {
  CacheOptions options = Options(kHybrid, 1 << 26, 16);
  options.digest = &FourBitDigest;
  TestCache cache(options);
  for (std::uint64_t i = 0; i < 200; ++i) cache.Record(MakeTokens(40, i));
  for (std::uint64_t i = 0; i < 200; ++i) {
    EXPECT_EQ(cache.Cached(Join(MakeTokens(40, i), MakeTokens(3, 999))), 40U);
  }
}

// 139 publish-early: an entry is visible before it is computed; abort and retry read what was never
// written.
TEST(Case, PublishEarly) {
  TestCache cache(Options(kHybrid, 1 << 24));
  const Tokens p = MakeTokens(300, 1);
  cache.Record(TokenSpan(p).first(50), {.prompt_end = false});
  {
    const RecordPlan second_chunk = cache.Begin(TokenSpan(p).first(100));
    ASSERT_TRUE(second_chunk.ticket);
    EXPECT_EQ(cache.Cached(p), 50U);  // a parallel request that shares the chunk
  }
  EXPECT_EQ(cache.Cached(p), 50U);
}

}  // namespace
}  // namespace skippy::cache
