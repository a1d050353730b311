// Lookups in the radix index of the core against the flat index of chained digests, interleaved,
// and the bytes that each takes beside the rows. Run: cmake -B build -DSKIPPY_BENCH=ON &&
// build/src/bench/index_bench [page_tokens [tail_tokens]]
//
// 16 prompts of 32k tokens, branched off at multiples of 2,000 tokens, with tails that hold 5.8
// million tokens together. Bytes are told per distinct token.
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <random>
#include <vector>

#include "bench/flat_index.h"
#include "cache/block_store.h"
#include "skippy/prefix_cache.h"

namespace skippy::bench {
namespace {

constexpr std::size_t kPromptTokens = 32 * 1024;
constexpr std::size_t kBases = 16;
constexpr std::size_t kTailTokens = 90'000 * 64;  // of all tails
constexpr std::uint32_t kRowBytes = 16;

using Tokens = std::vector<Token>;

Tokens Make(std::mt19937_64& random, std::size_t count) {
  Tokens out(count);
  for (Token& t : out) t = static_cast<Token>(random() % 50'000);
  return out;
}

std::uint64_t HeapBytes() { return mallinfo2().uordblks + mallinfo2().hblkhd; }

void Record(PrefixCache& cache, TokenSpan tokens) {
  RecordRequest request;
  request.tokens = tokens;
  request.prompt_end = true;
  RecordPlan plan = cache.BeginRecord(request);
  if (!plan.ticket) return;
  static std::uint64_t serial = 0;  // payloads must differ, or they would be stored once
  for (const auto& rows : plan.ticket->rows()) {
    std::memset(rows.buffer.data(), 0, rows.buffer.size());
    ++serial;
    std::memcpy(rows.buffer.data(), &serial, sizeof(serial));
  }
  if (!cache.Commit(std::move(*plan.ticket))) std::abort();
}

// Each text is recorded by `record`.
template <class Visit>
std::vector<Tokens> Grow(std::size_t tail_tokens, const Visit& record) {
  std::mt19937_64 random(1);
  std::vector<Tokens> bases;
  for (std::size_t i = 0; i < kBases; ++i) {
    bases.push_back(Make(random, kPromptTokens));
    record(TokenSpan(bases.back()));
  }
  for (std::size_t i = 0; i < kTailTokens / tail_tokens; ++i) {
    Tokens tokens = bases[random() % kBases];
    tokens.resize(2'000 * (1 + random() % (kPromptTokens / 2'000 - 1)));
    const Tokens tail = Make(random, tail_tokens);
    tokens.insert(tokens.end(), tail.begin(), tail.end());
    record(TokenSpan(tokens));
  }
  return bases;
}

class Times {
 public:
  template <class Visit>
  void Add(const Visit& visit) {
    const double start = Now();
    visit();
    ns_.push_back(Now() - start);
  }
  double Quantile(double q) {
    std::sort(ns_.begin(), ns_.end());
    return ns_[static_cast<std::size_t>(q * static_cast<double>(ns_.size() - 1))];
  }

 private:
  // Of this thread's processor time: the machine may be busy.
  static double Now() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
  }

  std::vector<double> ns_;
};

void PrintBytes(const char* what, std::uint64_t bytes, std::uint64_t rows) {
  std::printf("%-28s %12.1f MiB %8.2f bytes a token\n", what,
              static_cast<double>(bytes) / 1048576.0,
              static_cast<double>(bytes) / static_cast<double>(rows));
}

int Main(std::uint32_t page_tokens, std::size_t tail_tokens) {
  const SteadyClock clock;
  CacheOptions options;
  options.shape.kv_row_bytes = kRowBytes;
  options.page_tokens = page_tokens;
  options.max_bytes = std::uint64_t{8} << 30;
  options.max_entries = 10'000'000;
  std::uint64_t before = HeapBytes();
  PrefixCache radix(options, clock);
  std::vector<Tokens> bases = Grow(tail_tokens, [&](TokenSpan tokens) { Record(radix, tokens); });
  const std::uint64_t base_bytes = kBases * kPromptTokens * sizeof(Token);
  const CacheStats stats = radix.Stats();
  PrintBytes("radix, index and block table",
             HeapBytes() - before - stats.physical_bytes - base_bytes, stats.known_tokens);
  before = HeapBytes();
  FlatIndex flat({page_tokens, std::uint64_t{1} << 40, kRowBytes});
  Grow(tail_tokens, [&](TokenSpan tokens) { flat.Record(tokens); });
  PrintBytes("flat", HeapBytes() - before - flat.rows() * kRowBytes, stats.known_tokens);
  before = HeapBytes();
  {
    cache::BlockStore store({.max_bytes = std::uint64_t{8} << 30});
    const cache::NamespaceSlot slot{0};
    for (std::uint64_t i = 0; i < stats.blocks; ++i) {
      auto buffer = *cache::Buffer::Allocate(page_tokens * std::size_t{kRowBytes});
      std::memset(buffer.span().data(), 0, buffer.size());
      std::memcpy(buffer.span().data(), &i, sizeof(i));
      cache::Footprint need;
      need[Component::kKv] = buffer.size();
      store.Reserve(slot, need);
      const Digest digest = Blake3(buffer.span());
      store.Ref(store.Add(Component::kKv, std::move(buffer), digest).id, slot);
      store.Release(slot, need);
    }
    PrintBytes("  of radix: block table", HeapBytes() - before - store.live_bytes(),
               stats.known_tokens);
  }
  std::printf("pages of %u, tails of %zu; radix: %zu rows, %zu blocks, %zu nodes; flat: %zu rows\n",
              page_tokens, tail_tokens, std::size_t{stats.known_tokens}, std::size_t{stats.blocks},
              std::size_t{stats.entries}, std::size_t{flat.rows()});

  std::mt19937_64 random(2);
  std::printf("%8s %12s %12s %12s %12s %16s\n", "tokens", "radix p50", "radix p95", "flat p50",
              "flat p95", "its digests p50");
  for (const std::size_t length : {2'048U, 8'192U, 32'768U}) {
    Times of_radix;
    Times of_flat;
    Times of_digests;
    std::uint8_t sink = 0;
    for (int i = 0; i < 2'000; ++i) {
      const TokenSpan prompt = TokenSpan(bases[random() % kBases]).first(length);
      const Pos most = static_cast<Pos>(length - 1);
      of_digests.Add([&] {
        for (std::size_t at = 0; at + page_tokens <= length; at += page_tokens)
          sink ^= Blake3(std::as_bytes(prompt.subspan(at, page_tokens))).bytes[0];
      });
      // Which is first changes; both find the text in the processor's cache then, or neither.
      for (int turn = 0; turn < 2; ++turn) {
        if ((turn == 0) == (i % 2 == 0)) {
          of_radix.Add([&] {
            LookupQuery query;
            query.tokens = prompt;
            query.max_boundary = most;
            const LookupResult found = radix.Lookup(query);
            if (!found.hit || found.hit->boundary() != most) std::abort();
          });
        } else {
          of_flat.Add([&] {
            if (flat.Lookup(prompt, most).boundary() != most) std::abort();
          });
        }
      }
    }
    if (sink == 1) std::printf(" ");  // so that digests are not optimised away
    std::printf("%8zu %9.1f us %9.1f us %9.1f us %9.1f us %13.1f us\n", length,
                of_radix.Quantile(0.5) / 1e3, of_radix.Quantile(0.95) / 1e3,
                of_flat.Quantile(0.5) / 1e3, of_flat.Quantile(0.95) / 1e3,
                of_digests.Quantile(0.5) / 1e3);
  }
  return 0;
}

}  // namespace
}  // namespace skippy::bench

int main(int argc, char** argv) {
  const int page_tokens = argc > 1 ? std::atoi(argv[1]) : 64;
  const int tail_tokens = argc > 2 ? std::atoi(argv[2]) : 64;
  return skippy::bench::Main(static_cast<std::uint32_t>(page_tokens),
                             static_cast<std::size_t>(tail_tokens));
}
