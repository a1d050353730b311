// The memory shapes that fakes come in, and the state that a layer of each has.
//
// Threads: pure functions. Errors: none.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/fake/fake_state.h"

namespace skippy::runtime::fake {

enum class ShapeKind : std::uint8_t {
  kAttention = 0,  // dense KV
  kMla,            // dense KV of narrow rows
  kWindow,         // full layers and sliding-window layers
  kWindowOnly,     // sliding-window layers alone
  kRecurrent,      // state only: a snapshot is the whole
  kHybrid,         // KV and recurrent state
  kHybridWindow,   // KV, window and recurrent state
};
inline constexpr int kShapeKindCount = 7;
std::string_view ShapeKindName(ShapeKind kind);

// A window's ring holds window_tokens + chunk rows.
StateLayout LayoutOf(ShapeKind kind, std::uint32_t window_tokens, std::uint32_t chunk);

}  // namespace skippy::runtime::fake
