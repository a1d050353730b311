#include "runtime/saved_state.h"

#include <algorithm>

namespace skippy::runtime {

std::size_t SavedState::bytes() const {
  std::size_t sum = window.size() + snapshot.size();
  for (const auto& page_bytes : kv) sum += page_bytes.size();
  return sum;
}

SavedState BuffersFor(const MemoryShape& shape, Pos end, Pos page, Pos window_from) {
  SavedState state;
  state.end = end;
  state.page = page;
  for (Pos at = 0; shape.HasKv() && at < end; at += page)
    state.kv.emplace_back(std::min(page, end - at) * shape.kv_row_bytes);
  if (shape.HasWindow()) {
    state.window_from = window_from;
    state.window.resize((end - window_from) * shape.window_row_bytes);
  }
  state.snapshot.resize(shape.snapshot_bytes);
  return state;
}

Status ExportInto(Runtime& runtime, SeqId lane, SavedState& state) {
  for (Pos i = 0; i < state.kv.size(); ++i) {
    const Pos begin = i * state.page;
    const PosRange rows{begin, std::min(state.end, begin + state.page)};
    SKIPPY_RETURN_IF_ERROR(runtime.ExportRows(lane, Component::kKv, rows, state.kv[i]));
  }
  if (runtime.info().shape.HasWindow()) {
    const PosRange rows{state.window_from, state.end};
    SKIPPY_RETURN_IF_ERROR(runtime.ExportRows(lane, Component::kWindow, rows, state.window));
  }
  if (state.snapshot.empty()) return {};
  return runtime.ExportSnapshot(lane, state.snapshot);
}

Result<SavedState> Save(Runtime& runtime, SeqId lane, Pos page, std::optional<Pos> window_from) {
  const MemoryShape& shape = runtime.info().shape;
  const Pos end = runtime.End(lane);
  SavedState saved = BuffersFor(shape, end, page, window_from.value_or(shape.WindowBegin(end)));
  SKIPPY_RETURN_IF_ERROR(ExportInto(runtime, lane, saved));
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
