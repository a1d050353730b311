// A trace's prompts against the flat index, which holds counted rows instead of a runtime's.
#pragma once

#include "bench/flat_index.h"
#include "bench/replay.h"

namespace skippy::bench {

ReplayResult ReplayFlat(const Trace& trace, std::uint32_t vocabulary, const FlatOptions& options);

}  // namespace skippy::bench
