// A trace's prompts through the engine, one after the other, and what became of them.
//
// Only prompts are evaluated: what a trace's answers said is not known, so its next turns could not
// share it anyway. Decoded results are off, so that a cap counts rows only.
//
// Threads: one, the caller's. Cost: the runtime's for the tokens that are not cached.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/trace.h"
#include "runtime/runtime.h"
#include "skippy/cache_options.h"
#include "skippy/result.h"

namespace skippy::bench {

struct ReplayOptions {
  EvictionPolicyKind eviction = EvictionPolicyKind::kLru;
  std::uint32_t page_tokens = 64;
  std::uint64_t cap_bytes = 0;  // of the host tier
  bool hot_lanes = false;       // go on where a lane still holds the text
  // Memory with snapshots: where they are taken.
  std::uint32_t snapshot_spacing = 1;  // as engine::EngineOptions
  bool snapshot_junctions = true;      // likewise
  bool snapshot_parts = false;         // each block of a prompt is told as a message that begins
};

struct ReplayResult {
  std::uint64_t requests = 0;
  std::uint64_t hits = 0;  // requests with a cached token
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t evaluated_tokens = 0;
  std::uint64_t peak_bytes = 0;  // of the host tier, between requests
  std::uint64_t evicted_bytes = 0;
  std::uint64_t recorded_bytes = 0;      // stored, in all
  std::uint64_t deduplicated_bytes = 0;  // not stored because an equal block was there
  // At the end.
  std::uint64_t physical_bytes = 0;
  std::uint64_t logical_bytes = 0;  // of all rows and snapshots that are known
  std::uint64_t blocks = 0;
  std::uint64_t nodes = 0;
  std::uint64_t snapshots = 0;
  std::uint64_t known_tokens = 0;
  double seconds = 0;         // of the whole replay
  double lookup_seconds = 0;  // in lookups, and in records with their exports
  double record_seconds = 0;
};

// Called after each request.
using ReplayProgress = std::function<void(std::size_t done, std::size_t total)>;

// On `runtime`, whose lanes are cleared first. kInvalidArgument: a prompt does not fit into the
// context (the message has both numbers).
Result<ReplayResult> Replay(runtime::Runtime& runtime, const Trace& trace,
                            const ReplayOptions& options, const ReplayProgress& progress = {});

// Bytes that the rows of so many tokens take, and a snapshot a chunk.
std::uint64_t BytesOfTokens(const runtime::RuntimeInfo& info, std::uint64_t tokens);

}  // namespace skippy::bench
