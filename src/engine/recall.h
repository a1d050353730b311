// Recall: lets the cache know what the runtime itself has kept of a prompt (StateKeeper), so that a
// lookup finds it: state from before this process, or from a runtime that was cut another way.
//
// Threads: engine thread. Errors: none; what cannot be recalled is evaluated. Cost: a call to the
// keeper a prompt.
#pragma once

#include "engine/core.h"

namespace skippy::engine {

// `known`: the boundary that the cache alone would serve. True: the cache knows a deeper one now.
bool Recall(Core& core, const Run& run, Pos known);

}  // namespace skippy::engine
