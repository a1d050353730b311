// Helpers for the tests of stage hosts: a coordinator's session with one of them, by hand.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "pipeline/pipeline_testing.h"

namespace skippy::pipeline {

using runtime::RowsItem;

inline constexpr Pos kPage = 8;

inline FakeStageOptions Options(std::vector<ShapeKind> model) {
  FakeStageOptions options;
  options.model = std::move(model);
  options.end = static_cast<std::uint32_t>(options.model.size());
  return options;
}

inline std::vector<float> RowsOf(const FakeStageOptions& options, TokenSpan tokens) {
  std::vector<float> rows(tokens.size() * options.width);
  EXPECT_TRUE(TestRows(options).Rows(tokens, rows));
  return rows;
}

inline Digest NameOf(TokenSpan tokens) { return PieceName(Namespace{}, tokens); }

// What a coordinator would keep of a lane that holds `tokens`.
inline std::vector<PieceKey> PiecesOf(const MemoryShape& shape, TokenSpan tokens) {
  std::vector<PieceKey> pieces;
  const auto end = static_cast<Pos>(tokens.size());
  const auto add = [&](Component component, Pos from) {
    for (Pos begin = from; begin < end;) {
      const Pos page_end = std::min(end, (begin / kPage + 1) * kPage);
      pieces.push_back({NameOf(tokens.first(page_end)), component, {begin, page_end}});
      begin = page_end;
    }
  };
  if (shape.HasKv()) add(Component::kKv, 0);
  if (shape.HasWindow()) add(Component::kWindow, shape.WindowBegin(end));
  if (shape.HasSnapshot()) pieces.push_back({NameOf(tokens), Component::kSnapshot, {end, end}});
  return pieces;
}

inline StageRestore RestoreOf(SeqId lane, const MemoryShape& shape, TokenSpan tokens) {
  StageRestore restore{lane, static_cast<Pos>(tokens.size()), {}, {}, std::nullopt};
  for (const PieceKey& piece : PiecesOf(shape, tokens)) {
    if (piece.component == Component::kKv) restore.kv.push_back({piece, piece.positions});
    if (piece.component == Component::kWindow) restore.window.push_back({piece, piece.positions});
    if (piece.component == Component::kSnapshot) restore.snapshot = piece;
  }
  return restore;
}

// A coordinator's session with one stage.
struct Session {
  explicit Session(StageHost& the_host) : host(the_host), link(the_host) {
    const auto attached = link.Attach();
    EXPECT_TRUE(attached);
    if (attached) description = *attached;
  }
  const MemoryShape& shape() const { return description.info.shape; }

  // Evaluates rows in chunks; what leaves the stage for all of them, or the last one's logits.
  std::vector<float> Evaluate(SeqId lane, Pos pos, std::span<const float> rows) {
    std::vector<float> out;
    const std::size_t width = description.input_width;
    while (!rows.empty()) {
      const Pos chunk = description.info.chunk;
      const std::size_t tokens =
          std::min<std::size_t>(rows.size() / width, (pos / chunk + 1) * chunk - pos);
      const RowsItem item{lane, pos, rows.first(tokens * width), true};
      const auto output = link.Decode({&item, 1});
      EXPECT_TRUE(output) << (output ? "" : output.error().message);
      if (!output) return {};
      EXPECT_EQ(output->lanes.front().end, pos + tokens);
      if (description.output_width == 0)
        out = output->logits.front();
      else
        out.insert(out.end(), output->rows.begin(), output->rows.end());
      rows = rows.subspan(tokens * width);
      pos += static_cast<Pos>(tokens);
    }
    return out;
  }
  void KeepAll(SeqId lane, TokenSpan tokens) {
    for (const PieceKey& piece : PiecesOf(shape(), tokens)) {
      const Status kept = link.Keep(lane, piece);
      EXPECT_TRUE(kept) << (kept ? "" : kept.error().message);
    }
  }

  StageHost& host;
  LocalLink link;
  StageDescription description;
};

inline ErrorCode CodeOf(const auto& result) {
  EXPECT_FALSE(result.has_value());
  return result ? ErrorCode::kInternal : result.error().code;
}

}  // namespace skippy::pipeline
