// Microbenchmarks of the cache core. Run: cmake -B build -DSKIPPY_BENCH=ON &&
// build/src/cache/cache_bench
//
// Expected cost, before measuring (one core at about 3 GHz, 20 GB/s of memory bandwidth):
//  - Lookup of 32k tokens: 128 KiB of tokens compared on each side (256 KiB read: ~15 us), 512
//  extents of 64
//    rows visited twice (frontier, slices) and 512 blocks pinned, each a cache miss or two (~100
//    ns): ~100 us. The number of other entries adds a logarithm a node on the path. Target: well
//    under 1 ms.
//  - The same, where the path is cut into hundreds of nodes: one miss more a node, ~100 ns each.
//  - Record of a 512-token chunk at 24 KiB a row (SmolLM2-135M): 12 MiB digested at ~3 GB/s: ~4 ms,
//  plus
//    the copy by the runtime, which is not measured here. Bookkeeping alone (rows of 16 bytes): ~50
//    us, most of it walking and copying 32k tokens.
//  - Evict: a unit is one page; ordered sets: a few us a unit.
//  - Digest: BLAKE3 with AVX-512 at ~3.5 GB/s.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "skippy/prefix_cache.h"

namespace skippy {
namespace {

constexpr std::size_t kPromptTokens = 32 * 1024;
constexpr std::size_t kTailTokens = 64;
constexpr std::uint64_t kEntries = 100'000;

using Tokens = std::vector<Token>;

class Prompts {
 public:
  Tokens Make(std::size_t count) {
    Tokens out(count);
    for (Token& t : out) t = static_cast<Token>(random_() % 50'000);
    return out;
  }
  std::size_t Below(std::size_t bound) { return random_() % bound; }

 private:
  std::mt19937_64 random_{1};
};

CacheOptions OptionsOf(const MemoryShape& shape, std::uint64_t max_bytes) {
  CacheOptions options;
  options.shape = shape;
  options.max_bytes = max_bytes;
  options.max_entries = 10'000'000;
  return options;
}

RecordOutcome Record(PrefixCache& cache, TokenSpan tokens, bool snapshot = false) {
  RecordRequest request;
  request.tokens = tokens;
  request.snapshot = snapshot;
  request.prompt_end = true;
  RecordPlan plan = cache.BeginRecord(request);
  if (!plan.ticket) return plan.outcome;
  // Payloads must differ, or equal blocks would be stored once and nothing would ever be full.
  static std::uint64_t serial = 0;
  for (const auto& rows : plan.ticket->rows()) {
    ++serial;
    std::memcpy(rows.buffer.data(), &serial, sizeof(serial));
  }
  if (!plan.ticket->snapshot().empty()) {
    ++serial;
    std::memcpy(plan.ticket->snapshot().data(), &serial, sizeof(serial));
  }
  return cache.Commit(std::move(*plan.ticket)) ? RecordOutcome::kPlanned : RecordOutcome::kNoRoom;
}

// About 100,000 entries below prompts of 32k tokens: each prompt is branched off at multiples of
// `stride`, so its path is cut into 32k / stride nodes. stride 1: anywhere.
struct Forest {
  explicit Forest(std::size_t stride)
      : cache(OptionsOf({.kv_row_bytes = 16}, std::uint64_t{8} << 30), clock) {
    Prompts prompts;
    constexpr std::size_t kBases = 16;
    for (std::size_t i = 0; i < kBases; ++i) {
      bases.push_back(prompts.Make(kPromptTokens));
      Record(cache, bases.back());
    }
    while (cache.Stats().entries < kEntries) {
      Tokens tokens = bases[prompts.Below(kBases)];
      tokens.resize(stride * (1 + prompts.Below(kPromptTokens / stride - 1)));
      const Tokens tail = prompts.Make(kTailTokens);
      tokens.insert(tokens.end(), tail.begin(), tail.end());
      Record(cache, tokens);
    }
  }
  SteadyClock clock;
  PrefixCache cache;
  std::vector<Tokens> bases;
};

Forest& ForestWith(std::size_t stride) {
  static std::vector<std::pair<std::size_t, std::unique_ptr<Forest>>> forests;
  for (auto& [known, forest] : forests) {
    if (known == stride) return *forest;
  }
  forests.clear();
  forests.emplace_back(stride, std::make_unique<Forest>(stride));
  return *forests.back().second;
}

void BM_Lookup32k(benchmark::State& state) {
  Forest& forest = ForestWith(static_cast<std::size_t>(state.range(0)));
  std::size_t i = 0;
  for (auto _ : state) {
    LookupQuery query;
    query.tokens = forest.bases[i++ % forest.bases.size()];
    query.max_boundary = kPromptTokens - 1;
    const LookupResult result = forest.cache.Lookup(query);
    if (!result.hit || result.hit->boundary() != kPromptTokens - 1) state.SkipWithError("no hit");
    benchmark::DoNotOptimize(result.first_different);
  }
  state.counters["entries"] = static_cast<double>(forest.cache.Stats().entries);
}
BENCHMARK(BM_Lookup32k)->Arg(4096)->Arg(1024)->Arg(128)->Arg(1)->Unit(benchmark::kMicrosecond);

void BM_LookupOfUnknownText(benchmark::State& state) {
  Forest& forest = ForestWith(1024);
  Prompts prompts;
  Tokens tokens = prompts.Make(kPromptTokens);
  tokens.front() = 60'000;  // no stored prompt begins like this
  for (auto _ : state) {
    LookupQuery query;
    query.tokens = tokens;
    query.max_boundary = kPromptTokens - 1;
    benchmark::DoNotOptimize(forest.cache.Lookup(query));
  }
}
BENCHMARK(BM_LookupOfUnknownText);

// A 32k prompt recorded chunk by chunk of 512 tokens, 16 bytes a row: bookkeeping alone. Time is
// per chunk.
void BM_RecordChunkBookkeeping(benchmark::State& state) {
  const SteadyClock clock;
  Prompts prompts;
  constexpr std::size_t kChunk = 512;
  for (auto _ : state) {
    state.PauseTiming();
    auto cache = std::make_unique<PrefixCache>(
        OptionsOf({.kv_row_bytes = 16}, std::uint64_t{1} << 30), clock);
    const Tokens tokens = prompts.Make(kPromptTokens);
    state.ResumeTiming();
    for (std::size_t n = kChunk; n <= kPromptTokens; n += kChunk) {
      Record(*cache, TokenSpan(tokens).first(n));
    }
    state.PauseTiming();
    cache.reset();
    state.ResumeTiming();
  }
  state.counters["per_chunk"] = benchmark::Counter(
      static_cast<double>(kPromptTokens / kChunk),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_RecordChunkBookkeeping)->Unit(benchmark::kMicrosecond);

// One chunk of 512 tokens with rows of 23,040 bytes: digest included, filling the buffers not.
void BM_RecordChunkOfSmolLm(benchmark::State& state) {
  const SteadyClock clock;
  PrefixCache cache(OptionsOf({.kv_row_bytes = 23'040}, std::uint64_t{1} << 30), clock);
  Prompts prompts;
  for (auto _ : state) Record(cache, prompts.Make(512));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * 512 * 23'040);
}
BENCHMARK(BM_RecordChunkOfSmolLm)->Unit(benchmark::kMicrosecond);

// A full cache: each new prompt of 64 pages pushes out 64 units. Time is per unit.
void BM_RecordIntoFullCache(benchmark::State& state) {
  const SteadyClock clock;
  CacheOptions options = OptionsOf({.kv_row_bytes = 16}, std::uint64_t{64} << 20);
  options.eviction =
      state.range(0) == 0 ? EvictionPolicyKind::kLru : EvictionPolicyKind::kBenefitPerByte;
  PrefixCache cache(options, clock);
  Prompts prompts;
  while (cache.Stats().evicted_bytes == 0) Record(cache, prompts.Make(4096));
  for (auto _ : state) Record(cache, prompts.Make(4096));
  state.counters["per_page"] = benchmark::Counter(
      64, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_RecordIntoFullCache)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

// A hybrid conversation at its snapshot cap: each turn adds a snapshot and thins one.
void BM_ThinSnapshots(benchmark::State& state) {
  const SteadyClock clock;
  PrefixCache cache(
      OptionsOf({.kv_row_bytes = 16, .snapshot_bytes = 1 << 16}, std::uint64_t{8} << 20), clock);
  Prompts prompts;
  Tokens tokens = prompts.Make(1024);
  for (auto _ : state) {
    state.PauseTiming();
    if (tokens.size() > kPromptTokens) tokens = prompts.Make(1024);
    const Tokens turn = prompts.Make(64);
    tokens.insert(tokens.end(), turn.begin(), turn.end());
    state.ResumeTiming();
    Record(cache, tokens, true);
  }
}
BENCHMARK(BM_ThinSnapshots)->Unit(benchmark::kMicrosecond);

void BM_Digest(benchmark::State& state) {
  const std::vector<std::byte> block(static_cast<std::size_t>(state.range(0)), std::byte{7});
  for (auto _ : state) benchmark::DoNotOptimize(Blake3(block));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0));
}
BENCHMARK(BM_Digest)->Arg(1 << 10)->Arg(1 << 16)->Arg(1 << 20)->Arg(8 << 20);

}  // namespace
}  // namespace skippy

BENCHMARK_MAIN();
