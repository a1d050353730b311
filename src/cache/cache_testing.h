// For tests: payloads that are a function of the prefix, so that every restored byte can be
// checked.
//
// A row's bytes depend on component, all tokens up to it, and provenance (weaker rows stand for
// results that differ in the last bits). A block is laid out row after row: the cache must not
// care.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "skippy/prefix_cache.h"
#include "skippy/random.h"

namespace skippy::cache {

using Tokens = std::vector<Token>;

// Hash of tokens[0, length) as seen by one component.
inline std::uint64_t PrefixHash(TokenSpan tokens, std::size_t length, Component component) {
  std::uint64_t h = SplitMix64(static_cast<std::uint64_t>(component) + 1);
  for (std::size_t i = 0; i < length; ++i)
    h = SplitMix64(h ^ static_cast<std::uint64_t>(tokens[i]));
  return h;
}

inline void FillBytes(std::uint64_t seed, MutableByteSpan out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (i % 8 == 0) seed = SplitMix64(seed);
    out[i] = static_cast<std::byte>(seed >> (8 * (i % 8)));
  }
}

inline std::vector<std::byte> Payload(TokenSpan tokens, std::size_t length, Component component,
                                      Provenance provenance, std::size_t size) {
  std::vector<std::byte> out(size);
  FillBytes(PrefixHash(tokens, length, component) + static_cast<std::uint64_t>(provenance), out);
  return out;
}

inline bool SameBytes(ByteSpan a, ByteSpan b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

inline void FillTicket(const RecordTicket& ticket, TokenSpan tokens, Provenance provenance) {
  for (const RecordTicket::Rows& rows : ticket.rows()) {
    const std::size_t row_bytes = rows.buffer.size() / rows.positions.size();
    std::uint64_t h = PrefixHash(tokens, rows.positions.begin, rows.component);
    for (Pos p = rows.positions.begin; p < rows.positions.end; ++p) {
      h = SplitMix64(h ^ static_cast<std::uint64_t>(tokens[p]));
      FillBytes(h + static_cast<std::uint64_t>(provenance),
                rows.buffer.subspan((p - rows.positions.begin) * row_bytes, row_bytes));
    }
  }
  const auto fill = [&](MutableByteSpan out, Component component) {
    FillBytes(PrefixHash(tokens, tokens.size(), component) + static_cast<std::uint64_t>(provenance),
              out);
  };
  fill(ticket.snapshot(), Component::kSnapshot);
  fill(ticket.logits(), Component::kLogits);
}

// Empty if every byte of the hit is what the prefix makes it, else what is wrong. With `only_grid`,
// rows of weaker provenance are wrong too.
inline std::string CheckHit(const PinnedHit& hit, TokenSpan tokens, const MemoryShape& shape,
                            bool only_grid) {
  const auto matches = [&](ByteSpan bytes, std::size_t length, Component component) {
    for (const Provenance p : {Provenance::kGrid, Provenance::kPrefill, Provenance::kDecode}) {
      if (SameBytes(bytes, Payload(tokens, length, component, p, bytes.size()))) return true;
      if (only_grid) return false;
    }
    return false;
  };
  const auto check_rows = [&](std::span<const RowSlice> slices, Component component, PosRange range,
                              std::uint64_t row_bytes) -> std::string {
    if (row_bytes == 0) return slices.empty() ? "" : "rows of a component that the shape lacks";
    Pos expected = range.begin;
    for (const RowSlice& slice : slices) {
      if (slice.positions.begin != expected || slice.positions.empty())
        return "a gap or an overlap";
      expected = slice.positions.end;
      if (slice.block.size() != slice.block_rows * row_bytes) return "a block's size is wrong";
      if (slice.first_row + slice.positions.size() > slice.block_rows)
        return "a slice exceeds its block";
      for (Pos p = slice.positions.begin; p < slice.positions.end; ++p) {
        const std::size_t row = slice.first_row + (p - slice.positions.begin);
        if (!matches(slice.block.subspan(row * row_bytes, row_bytes), p + std::size_t{1},
                     component)) {
          return "wrong row at " + std::to_string(p);
        }
      }
    }
    return expected == range.end ? "" : "rows end at " + std::to_string(expected);
  };
  const Pos b = hit.boundary();
  if (b == 0 || b > tokens.size()) return "boundary out of range";
  std::string problem = check_rows(hit.kv(), Component::kKv, {0, b}, shape.kv_row_bytes);
  if (!problem.empty()) return "kv: " + problem;
  problem = check_rows(hit.window(), Component::kWindow, {shape.WindowBegin(b), b},
                       shape.window_row_bytes);
  if (!problem.empty()) return "window: " + problem;
  if (hit.snapshot().size() != shape.snapshot_bytes) return "the snapshot's size is wrong";
  if (shape.HasSnapshot() && !matches(hit.snapshot(), b, Component::kSnapshot))
    return "wrong snapshot";
  if (!hit.decoded_result()) return hit.logits().empty() ? "" : "logits without a decoded result";
  if (b != tokens.size()) return "a decoded result that is not of the whole query";
  if (hit.logits().size() != shape.logits_bytes) return "the logits' size is wrong";
  return matches(hit.logits(), b, Component::kLogits) ? "" : "wrong logits";
}

// A cache with the few calls that tests are made of.
struct RecordWish {
  Provenance provenance = Provenance::kPrefill;
  Pos rows_available_from = 0;
  Pos window_available_from = 0;
  bool snapshot = true;
  bool logits = false;
  bool prompt_end = true;
  bool part_start = false;
};

class TestCache {
 public:
  explicit TestCache(const CacheOptions& options) : cache_(options, clock_) {}
  PrefixCache& operator*() { return cache_; }
  PrefixCache* operator->() { return &cache_; }
  Namespace ns{Blake3({})};

  RecordPlan Begin(TokenSpan tokens, const RecordWish& wish = {}) {
    RecordRequest request;
    request.ns = ns;
    request.tokens = tokens;
    request.provenance = wish.provenance;
    request.rows_available_from = wish.rows_available_from;
    request.window_available_from = wish.window_available_from;
    request.snapshot = wish.snapshot;
    request.logits = wish.logits;
    request.prompt_end = wish.prompt_end;
    request.part_start = wish.part_start;
    return cache_.BeginRecord(request);
  }
  RecordOutcome Record(TokenSpan tokens, const RecordWish& wish = {}) {
    RecordPlan plan = Begin(tokens, wish);
    if (plan.outcome == RecordOutcome::kPlanned) {
      FillTicket(*plan.ticket, tokens, wish.provenance);
      if (!cache_.Commit(std::move(*plan.ticket))) return RecordOutcome::kNoRoom;
    }
    return plan.outcome;
  }
  LookupResult Lookup(TokenSpan tokens, bool peek = false) {
    LookupQuery query;
    query.ns = ns;
    query.tokens = tokens;
    query.max_boundary = tokens.empty() ? 0 : static_cast<Pos>(tokens.size() - 1);
    query.peek = peek;
    return cache_.Lookup(query);
  }
  // Boundary that a lookup returns; its bytes are checked. 0: a miss.
  Pos Cached(TokenSpan tokens, bool peek = false) {
    const LookupResult result = Lookup(tokens, peek);
    if (!result.hit) return 0;
    const std::string problem = CheckHit(*result.hit, tokens, cache_.options().shape, false);
    EXPECT_EQ(problem, "");
    return result.hit->boundary();
  }

 private:
  ManualClock clock_;
  PrefixCache cache_;
};

// `count` tokens that depend on `seed`, different for different seeds from the first one on.
inline Tokens MakeTokens(std::size_t count, std::uint64_t seed) {
  Tokens out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = static_cast<Token>(SplitMix64(seed * 1'000'003 + i) % 30'000 +
                                (i == 0 ? seed % 1000 * 30'000 : 0));
  }
  return out;
}

inline Tokens Join(TokenSpan a, TokenSpan b) {
  Tokens out(a.begin(), a.end());
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

inline Digest CollidingDigest(ByteSpan) { return {}; }

inline constexpr std::uint64_t kRow = 16;

inline CacheOptions DenseOptions(std::uint64_t max_bytes = 1 << 20) {
  CacheOptions options;
  options.shape.kv_row_bytes = kRow;
  options.shape.logits_bytes = 40;
  options.page_tokens = 8;
  options.max_bytes = max_bytes;
  return options;
}

inline CacheOptions HybridOptions() {
  CacheOptions options = DenseOptions();
  options.shape.snapshot_bytes = 100;
  return options;
}

inline CacheOptions WindowOptions() {
  CacheOptions options = DenseOptions();
  options.shape.window_row_bytes = 8;
  options.shape.window_tokens = 20;
  return options;
}

}  // namespace skippy::cache
