#include "runtime/saved_state.h"

#include <algorithm>

namespace skippy::runtime {

std::size_t SavedState::bytes() const {
  std::size_t sum = window.size() + snapshot.size();
  for (const auto& page_bytes : kv) sum += page_bytes.size();
  return sum;
}

Result<SavedState> Save(Runtime& runtime, SeqId lane, Pos page, std::optional<Pos> window_from) {
  const MemoryShape& shape = runtime.info().shape;
  SavedState saved;
  saved.end = runtime.End(lane);
  saved.page = page;
  for (Pos at = 0; shape.HasKv() && at < saved.end; at += page) {
    const PosRange rows{at, std::min(saved.end, at + page)};
    auto& block = saved.kv.emplace_back(rows.size() * shape.kv_row_bytes);
    SKIPPY_RETURN_IF_ERROR(runtime.ExportRows(lane, Component::kKv, rows, block));
  }
  if (shape.HasWindow()) {
    saved.window_from = window_from.value_or(shape.WindowBegin(saved.end));
    const PosRange rows{saved.window_from, saved.end};
    saved.window.resize(rows.size() * shape.window_row_bytes);
    SKIPPY_RETURN_IF_ERROR(runtime.ExportRows(lane, Component::kWindow, rows, saved.window));
  }
  if (shape.HasSnapshot()) {
    saved.snapshot.resize(shape.snapshot_bytes);
    SKIPPY_RETURN_IF_ERROR(runtime.ExportSnapshot(lane, saved.snapshot));
  }
  return saved;
}

Restore MakeRestore(const MemoryShape& shape, SeqId lane, const SavedState& saved, TokenSpan tokens,
                    Pos end) {
  Restore restore;
  for (Pos i = 0; i < saved.kv.size() && i * saved.page < end; ++i) {
    const Pos begin = i * saved.page;
    const Pos rows = std::min(saved.end - begin, saved.page);
    restore.kv.push_back({saved.kv[i], rows, 0, {begin, std::min(end, begin + rows)}});
  }
  if (shape.HasWindow() && shape.WindowBegin(end) < end) {
    const Pos begin = shape.WindowBegin(end);
    restore.window.push_back(
        {saved.window, saved.end - saved.window_from, begin - saved.window_from, {begin, end}});
  }
  restore.request = {.lane = lane,
                     .end = end,
                     .tokens = tokens.first(end),
                     .kv = restore.kv,
                     .window = restore.window,
                     .snapshot = saved.snapshot};
  return restore;
}

Status RestoreInto(Runtime& runtime, SeqId lane, const SavedState& saved, TokenSpan tokens,
                   Pos end) {
  return runtime.Import(MakeRestore(runtime.info().shape, lane, saved, tokens, end).request);
}

}  // namespace skippy::runtime
