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
// an empty lane, and where exports are names (runtime/state_keeper.h). Cost: an export of the
// state.
Result<std::optional<Digest>> StateDigest(runtime::Runtime& runtime, SeqId lane);

}  // namespace skippy::certify
