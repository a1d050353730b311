// What a seed decides before the first event: the runtime's memory, the cache's limits, the
// engine's options and the faults. Swarm style: each run leaves some things out altogether and
// overdoes others.
#pragma once

#include <string>

#include "engine/engine.h"
#include "random.h"
#include "runtime/fake/fake_runtime.h"
#include "skippy/cache_options.h"

namespace skippy::sim {

struct WorldConfig {
  runtime::fake::FakeOptions fake;
  CacheOptions cache;
  engine::EngineOptions engine;
  runtime::fake::FaultPlan faults;
  std::uint32_t alphabet =
      64;  // prompts use tokens below it; a small one makes accidental prefixes
  std::uint32_t events = 30;
  bool passes_may_fail = false;  // a request may end with an error
  std::string Describe() const;
};

WorldConfig RandomWorld(Random& random);
// Unbounded, without faults and cancellations: for counting evaluated tokens against the ideal.
WorldConfig EconomyWorld(Random& random);

}  // namespace skippy::sim
