// Moving a lane's state with the calls that the port has: exports a page or all pages a call, in
// turns, and the import of all pages in one. The port knows no import by page: a lane's positions
// must follow each other, and what is not there yet must not be seen.
//
// Threads: one. Cost: rounds times each movement.
#pragma once

#include <cstdint>

#include "bench/micro.h"
#include "runtime/saved_state.h"

namespace skippy::bench {

// Fills the export_ and import_ members. The lane holds the state afterwards.
Status MeasureMovements(runtime::Runtime& runtime, const runtime::SavedState& state,
                        TokenSpan tokens, std::uint32_t rounds, MicroPoint& point);

}  // namespace skippy::bench
