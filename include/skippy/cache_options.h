// Options of the cache core. Plain values; Validate() names every problem at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "skippy/digest.h"
#include "skippy/memory_shape.h"

namespace skippy {

enum class EvictionPolicyKind : std::uint8_t {
  kLru = 0,  // first what is to spare, then entries never hit, then entries that were hit; least
             // recently used first
  kBenefitPerByte =
      1,  // least (tokens saved x hits) per byte first, aged (GreedyDual-Size-Frequency)
};

struct CacheOptions {
  // affects behaviour
  MemoryShape shape;
  PayloadPolicy policy = PayloadPolicy::kResidentKv;
  std::uint32_t page_tokens = 64;  // rows a block at most; pages are cut at multiples of it
  std::uint64_t max_bytes = std::uint64_t{1}
                            << 30;        // hard cap of physical payload bytes, logits included
  std::uint64_t max_namespace_bytes = 0;  // the same for one namespace; 0: no cap of its own
  std::uint64_t max_logits_bytes = std::uint64_t{64}
                                   << 20;  // share of max_bytes that logits may take
  std::uint64_t max_entries = 1'000'000;   // index nodes
  std::uint32_t min_hit_tokens = 0;        // shorter hits are reported as misses (below_min)
  EvictionPolicyKind eviction = EvictionPolicyKind::kLru;
  std::uint32_t max_tombstones = 4096;  // remembered evictions, for the miss reason only
  // test seam: a colliding function must change no result
  DigestFunction digest = &Blake3;

  std::vector<std::string> Validate() const;
};

}  // namespace skippy
