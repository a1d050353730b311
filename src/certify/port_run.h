// Running a lane at the port, below the engine: for sequence copies, round trips and figures.
//
// Threads: one. Errors: the runtime's own.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "certify/compare.h"
#include "runtime/runtime.h"
#include "skippy/result.h"
#include "skippy/types.h"

namespace skippy::certify {

using Logits = std::vector<float>;

// Evaluates tokens [End(lane), to) in chunks that end on the grid, as the engine does; the logits
// of the last one. kInvalidArgument when nothing is to be done.
Result<Logits> Prefill(runtime::Runtime& runtime, SeqId lane, TokenSpan tokens, Pos to);
// The same with chunk ends `shift` tokens behind the grid.
Result<Logits> PrefillShifted(runtime::Runtime& runtime, SeqId lane, TokenSpan tokens, Pos to,
                              Pos shift);
Result<Logits> DecodeOne(runtime::Runtime& runtime, SeqId lane, Token token);

// The rest of the prompt and a greedy answer of `steps` tokens, as an engine's request would give.
Result<Answer> Finish(runtime::Runtime& runtime, SeqId lane, TokenSpan prompt, std::uint32_t steps);

// Digest of all rows that a boundary at the lane's end needs, and of the snapshot there; none for
// an empty lane. Cost: an export of the state.
Result<std::optional<Digest>> StateDigest(runtime::Runtime& runtime, SeqId lane);

// A lane's state at its end, in pages as the cache keeps it.
struct SavedState {
  Pos end = 0;
  Pos page = 0;
  Pos window_from = 0;
  std::vector<std::vector<std::byte>> kv;
  std::vector<std::byte> window;  // rows [window_from, end)
  std::vector<std::byte> snapshot;
  std::size_t bytes() const;
};
Result<SavedState> Save(runtime::Runtime& runtime, SeqId lane, Pos page);
// Into `lane`, whatever it holds. tokens: those of [0, saved.end).
Status Restore(runtime::Runtime& runtime, SeqId lane, const SavedState& saved, TokenSpan tokens);

}  // namespace skippy::certify
