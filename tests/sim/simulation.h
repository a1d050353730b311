// One simulated run: random prompts with shared prefixes through core and engine on the fake
// runtime, with cancels, evictions and faults; every generated token is compared with a cold run.
//
// Deterministic: a seed is a run. A run stops at its first failure and says what was wrong.
#pragma once

#include <cstdint>
#include <string>

#include "engine/engine.h"
#include "skippy/cache_stats.h"

namespace skippy::sim {

struct RunResult {
  std::string failure;      // empty: all was right
  std::string world;        // what the seed chose
  std::uint64_t trace = 0;  // hash of everything observable, for I12
  std::uint64_t requests = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t evaluated_tokens = 0;
  std::uint64_t ideal_tokens = 0;  // RunEconomy: what a perfect prefix tree would evaluate
  std::uint64_t faults = 0;
  engine::EngineStats engine;
  CacheStats cache;
  bool ok() const { return failure.empty(); }
};

// Anything may happen; nothing may be wrong.
RunResult RunSimulation(std::uint64_t seed);

// No faults, no caps, no cancellations: nothing may be wrong or evaluated twice.
RunResult RunEconomy(std::uint64_t seed);

}  // namespace skippy::sim
