// RowSlice: how rows travel between the cache and a runtime, which do not know each other.
#pragma once

#include <cstdint>

#include "skippy/types.h"

namespace skippy {

// Consecutive rows of one block: rows [first_row, first_row + positions.size()) of a block that
// holds block_rows rows. The inner layout of a block belongs to the runtime (runtime/runtime.h);
// the cache only knows that a block of n rows has n * row bytes. Borrowed: valid while the hit that
// lent it is alive.
struct RowSlice {
  ByteSpan block;
  std::uint32_t block_rows = 0;
  std::uint32_t first_row = 0;
  PosRange positions;
};

}  // namespace skippy
