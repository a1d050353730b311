// What keeping state costs and saves: bytes by component, and restoring against recomputing at
// several lengths. Beside the certificate; no part of the verdict.
//
// Cost: one prefill up to the longest length that fits the context and the time limit, and a few
// restores at each.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "certify/arena.h"
#include "skippy/memory_shape.h"
#include "skippy/result.h"

namespace skippy::certify {

struct CostPoint {
  Pos tokens = 0;
  bool measured = false;  // false: derived from the measured ones
  std::uint64_t bytes = 0;
  double restore_ms = 0;
  double recompute_ms = 0;
  double restore_gb_s = 0;  // derived points: 0
  double memcpy_gb_s = 0;
  bool operator==(const CostPoint&) const = default;
};

struct Economics {
  std::uint64_t kv_bytes_per_token = 0;
  std::uint64_t window_bytes_per_token = 0;
  std::uint32_t window_tokens = 0;
  std::uint64_t snapshot_bytes = 0;
  std::uint64_t logits_bytes = 0;
  std::uint64_t expanded_bytes_per_token = 0;  // of latents (MLA) if kept expanded; 0: no latents
  std::vector<CostPoint> points;
  // Shortest prefix that is restored faster than computed; none: never.
  std::optional<Pos> break_even_tokens;
  bool operator==(const Economics&) const = default;
};

struct EconomicsOptions {
  std::vector<Pos> lengths = {128, 1024, 4096, 16384};
  double max_seconds = 90;  // for computing; longer lengths are derived
};
// `runtime`: what the arena was made with, for the subject's figures.
Result<Economics> MeasureEconomics(Arena& arena, const runtime::RuntimeOptions& runtime,
                                   const EconomicsOptions& options);

// Bytes of a restorable boundary at `tokens`.
std::uint64_t StateBytes(const MemoryShape& shape, Pos tokens);

}  // namespace skippy::certify
