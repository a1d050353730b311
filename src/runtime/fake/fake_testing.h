// Helpers for the fake runtime's own tests: run tokens, save a boundary as blocks, restore it.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "runtime/fake/fake_runtime.h"

namespace skippy::runtime::fake {

inline constexpr SeqId kLaneA{0};
inline constexpr SeqId kLaneB{1};

inline std::vector<Token> SomeTokens(std::size_t count, std::uint64_t seed = 7) {
  std::vector<Token> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<Token>(Mix(seed, i) % 64);
  return tokens;
}

// Evaluates tokens [End(lane), tokens.size()) in chunks on the grid; the logits of the last token.
inline std::vector<float> Evaluate(Runtime& runtime, SeqId lane, TokenSpan tokens) {
  const Pos chunk = runtime.info().chunk;
  while (runtime.End(lane) < tokens.size()) {
    const Pos begin = runtime.End(lane);
    const Pos end = std::min<Pos>(static_cast<Pos>(tokens.size()), (begin / chunk + 1) * chunk);
    const DecodeItem item{lane, begin, tokens.subspan(begin, end - begin), true};
    const Status status = runtime.Decode({&item, 1});
    EXPECT_TRUE(status) << (status ? "" : status.error().message);
    if (!status) return {};
  }
  const std::span<const float> logits = runtime.Logits(0);
  return {logits.begin(), logits.end()};
}

// A boundary in host memory: one block of rows a page, as a cache would hold it.
struct SavedBoundary {
  struct Page {
    PosRange positions;
    std::vector<std::byte> bytes;
  };
  Pos end = 0;
  std::vector<Token> tokens;
  std::vector<Page> kv;
  std::vector<Page> window;
  std::vector<std::byte> snapshot;
};

inline std::vector<SavedBoundary::Page> SavePages(Runtime& runtime, SeqId lane, Component component,
                                                  PosRange rows, Pos page) {
  const MemoryShape& shape = runtime.info().shape;
  const std::uint64_t row_bytes =
      component == Component::kKv ? shape.kv_row_bytes : shape.window_row_bytes;
  std::vector<SavedBoundary::Page> pages;
  for (Pos begin = rows.begin; begin < rows.end;) {
    const Pos end = std::min(rows.end, (begin / page + 1) * page);
    SavedBoundary::Page saved{{begin, end}, std::vector<std::byte>((end - begin) * row_bytes)};
    EXPECT_TRUE(runtime.ExportRows(lane, component, saved.positions, saved.bytes));
    pages.push_back(std::move(saved));
    begin = end;
  }
  return pages;
}

inline SavedBoundary Save(Runtime& runtime, SeqId lane, TokenSpan tokens, Pos page) {
  const MemoryShape& shape = runtime.info().shape;
  SavedBoundary saved;
  saved.end = runtime.End(lane);
  saved.tokens.assign(tokens.begin(), tokens.begin() + saved.end);
  if (shape.HasKv()) saved.kv = SavePages(runtime, lane, Component::kKv, {0, saved.end}, page);
  if (shape.HasWindow()) {
    saved.window = SavePages(runtime, lane, Component::kWindow,
                             {shape.WindowBegin(saved.end), saved.end}, page);
  }
  saved.snapshot.resize(shape.snapshot_bytes);
  if (shape.HasSnapshot()) {
    EXPECT_TRUE(runtime.ExportSnapshot(lane, saved.snapshot));
  }
  return saved;
}

inline std::vector<RowSlice> Slices(const std::vector<SavedBoundary::Page>& pages) {
  std::vector<RowSlice> slices;
  for (const SavedBoundary::Page& page : pages) {
    slices.push_back({page.bytes, page.positions.size(), 0, page.positions});
  }
  return slices;
}

inline Status Restore(Runtime& runtime, SeqId lane, const SavedBoundary& saved) {
  const std::vector<RowSlice> kv = Slices(saved.kv);
  const std::vector<RowSlice> window = Slices(saved.window);
  return runtime.Import({lane, saved.end, saved.tokens, kv, window, saved.snapshot});
}

}  // namespace skippy::runtime::fake
