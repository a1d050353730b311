// Core: what every stage of the engine works with. References and a few shared questions; no logic
// of a stage. Owned by the engine thread.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/run.h"
#include "runtime/runtime.h"
#include "runtime/state_keeper.h"
#include "skippy/clock.h"
#include "skippy/prefix_cache.h"

namespace skippy::engine {

struct Core {
  Core(const EngineOptions& options, runtime::Runtime& runtime, PrefixCache& cache,
       const Clock& clock);

  const EngineOptions options;
  runtime::Runtime& runtime;
  runtime::StateKeeper* const keeper;  // of `runtime`; null: exports are the state itself
  PrefixCache& cache;
  const Clock& clock;
  EngineStats stats;
  std::vector<Lane> lanes;
  // Called before a sink's OnFinish, so that whoever is told of the end finds it in the counters.
  std::function<void()> publish;

  const runtime::RuntimeInfo& info() const { return runtime.info(); }
  const MemoryShape& shape() const { return runtime.info().shape; }
  bool BitExact() const { return options.exactness == Exactness::kBit; }
  // State may be exported and imported; not for families whose export is not exact.
  bool Caching() const;
  // The boundary that may be restored in this exactness: on the grid, or as it is.
  Pos Usable(Pos boundary) const;

  double MillisecondsSince(Tick start) const;

  // Forgets what a lane holds, in the runtime and here.
  void ClearLane(Lane& lane);
  // The lane's token list is what the runtime holds; else the lane is cleared.
  bool CheckLane(Lane& lane);
  // Selects adapters for the following decodes; remembers the choice, so that repeating it is free.
  Status UseAdapters(const AdapterSet& adapters);

 private:
  AdapterSet adapters_in_use_;
  bool adapters_known_ = false;
};

// No NaN, no +Inf, and something to choose from. -Inf alone is a legal way to forbid a token.
bool LogitsAreSane(std::span<const float> logits);

}  // namespace skippy::engine
