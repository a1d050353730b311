// A lane's state at its end as bytes, in pages as the cache keeps it, and its way back into a lane.
//
// Threads: one. Errors: the runtime's own. Cost: one copy of the state.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "runtime/runtime.h"
#include "skippy/result.h"
#include "skippy/types.h"

namespace skippy::runtime {

struct SavedState {
  Pos end = 0;
  Pos page = 0;
  Pos window_from = 0;
  std::vector<std::vector<std::byte>> kv;
  std::vector<std::byte> window;  // rows [window_from, end)
  std::vector<std::byte> snapshot;
  std::size_t bytes() const;
  bool operator==(const SavedState&) const = default;
};
// With buffers for a lane that ends at `end`, all zero. window_from: the first window row.
SavedState BuffersFor(const MemoryShape& shape, Pos end, Pos page, Pos window_from);
// Fills the buffers from the lane, which must end where the state does.
Status ExportInto(Runtime& runtime, SeqId lane, SavedState& state);
// window_from: the first window row to keep, one that the lane holds; by default the first that the
// boundary at the lane's end needs.
Result<SavedState> Save(Runtime& runtime, SeqId lane, Pos page,
                        std::optional<Pos> window_from = std::nullopt);

// The request that brings a lane to [0, end). Borrows from the state and the tokens.
struct Restore {
  std::vector<RowSlice> kv;
  std::vector<RowSlice> window;
  ImportRequest request;
};
// tokens: at least those of [0, end). `end` may lie before saved.end where there is no snapshot and
// the window rows that it needs were kept.
Restore MakeRestore(const MemoryShape& shape, SeqId lane, const SavedState& saved, TokenSpan tokens,
                    Pos end);
// Into `lane`, whatever it holds.
Status RestoreInto(Runtime& runtime, SeqId lane, const SavedState& saved, TokenSpan tokens,
                   Pos end);

}  // namespace skippy::runtime
