// What the state of a sequence consists of, for one loaded model: the only thing that the cache has
// to know about a family. Bytes are those of the runtime's own export, so they are measured, not
// guessed.
#pragma once

#include <cstdint>
#include <string_view>

#include "skippy/types.h"

namespace skippy {

// The parts of a restorable boundary. All that the shape has must be there, or the boundary is not
// usable.
enum class Component : std::uint8_t {
  kKv = 0,        // append-only rows, one a token (dense KV, MLA latents, indexer keys)
  kWindow = 1,    // rows of sliding-window layers: the last window_tokens before the boundary
  kSnapshot = 2,  // the whole recurrent state at exactly one boundary
  kLogits = 3,    // logits of the last token before the boundary (decoded-result cache); optional
};
inline constexpr int kComponentCount = 4;

enum class PayloadPolicy : std::uint8_t {
  kOff = 0,          // not cached, with a reason
  kResidentKv = 1,   // KV rows (and window rows) are the whole state
  kKvRecurrent = 2,  // KV rows and recurrent snapshots, moved together or not at all
  kFullState = 3,    // whole serialised sequence: certification only
};
std::string_view PayloadPolicyName(PayloadPolicy policy);

struct MemoryShape {
  std::uint64_t kv_row_bytes = 0;      // all append-only layers together, a token; 0: none
  std::uint64_t window_row_bytes = 0;  // all window layers together, a token; 0: none
  // A boundary p needs the window rows [p - min(p, window_tokens), p).
  std::uint32_t window_tokens = 0;
  std::uint64_t snapshot_bytes = 0;  // recurrent state of one sequence; 0: none
  std::uint64_t logits_bytes = 0;    // n_vocab * sizeof(float)

  bool HasKv() const { return kv_row_bytes > 0; }
  bool HasWindow() const { return window_row_bytes > 0; }
  bool HasSnapshot() const { return snapshot_bytes > 0; }
  // Attention-like memory can resume at any token; recurrent memory only where a snapshot was
  // taken.
  bool AnyBoundary() const { return !HasSnapshot(); }
  // First window row that boundary p needs.
  Pos WindowBegin(Pos p) const { return p > window_tokens ? p - window_tokens : 0; }
  bool operator==(const MemoryShape&) const = default;
};

}  // namespace skippy
