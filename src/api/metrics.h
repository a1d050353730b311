// What the server tells about itself: Prometheus metrics and the words for how this model's
// prefixes are reused. Called on HTTP threads; asks the engine thread for the cache's counters.
#pragma once

#include <string>

#include "api/server_state.h"
#include "skippy/cache_stats.h"

namespace skippy::api {

std::string RenderMetrics(ServerState& state);

// How fine prefixes are reused for this model, in a sentence for people.
std::string ReuseWords(const runtime::RuntimeInfo& info);

// The cache's counters, read between two steps of the engine.
CacheStats ReadCacheStats(ServerState& state);

}  // namespace skippy::api
