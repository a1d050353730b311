// Plain counters of one PrefixCache; rendering is somebody else's business.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "skippy/memory_shape.h"

namespace skippy {

inline constexpr int kMissReasonCount = 8;

struct CacheStats {
  // gauges
  std::uint64_t physical_bytes = 0;  // sum of live blocks, each counted once
  std::uint64_t logical_bytes =
      0;  // what all rows, snapshots and logits would take if no two shared a block
  std::uint64_t max_bytes = 0;
  std::array<std::uint64_t, kComponentCount> component_bytes{};  // physical, by component
  std::uint64_t entries = 0;                                     // index nodes
  std::uint64_t blocks = 0;
  std::uint64_t snapshots = 0;
  std::uint64_t logits = 0;
  std::uint64_t pinned_blocks = 0;
  std::uint64_t known_tokens = 0;  // tokens in the index
  // counters, monotonic
  std::uint64_t lookups = 0;
  std::uint64_t lookup_tokens = 0;  // tokens asked for
  std::uint64_t hits = 0;
  std::uint64_t hit_tokens = 0;
  std::uint64_t decoded_result_hits = 0;
  std::array<std::uint64_t, kMissReasonCount>
      misses_by_reason{};  // indexed by MissReason, lookups without a hit
  std::uint64_t records = 0;
  std::uint64_t records_refused_too_large = 0;
  std::uint64_t records_refused_no_room = 0;
  std::uint64_t records_aborted = 0;
  std::uint64_t recorded_bytes = 0;
  std::uint64_t deduplicated_bytes = 0;  // payload bytes not stored because an equal block existed
  std::uint64_t evicted_tokens = 0;
  std::uint64_t evicted_bytes = 0;
  std::uint64_t evicted_snapshots = 0;
  std::uint64_t evicted_logits = 0;
  std::uint64_t condemned = 0;
  std::string latched;  // why the cache is off; empty: it is on
};

}  // namespace skippy
