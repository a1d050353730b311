// A sequence's whole state as llama.cpp itself serialises it; for certification only
// (runtime/full_state.h).
//
// Threads: engine thread only; the context must be synchronised. Errors: kInternal with llama.cpp's
// own words. Cost: the size of the state, a copy.
#pragma once

#include <cstddef>
#include <vector>

#include "skippy/result.h"
#include "skippy/types.h"

struct llama_context;

namespace skippy::llama {

Result<std::vector<std::byte>> ReadFullState(llama_context* context, SeqId lane);
// Where the sequence ends afterwards. llama.cpp chooses the cells: those of a sliding window may be
// others than a cold run's.
Result<Pos> WriteFullState(llama_context* context, SeqId lane, ByteSpan state);

}  // namespace skippy::llama
