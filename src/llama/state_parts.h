// Which layers the bytes of an export belong to.
//
// Threads: pure functions. Errors: kUnsupported, naming the tensor whose layer cannot be told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/stage_access.h"
#include "skippy/result.h"

namespace skippy::llama {

// A tensor's share in an export, in the order of its blocks.
struct TensorShare {
  std::string_view name;  // llama.cpp's; lives as long as the memory
  std::optional<std::uint32_t> layer;
  std::size_t bytes = 0;  // of a row (of the whole snapshot)
};

// "cache_k_l7" and all others that end in "_l" and a number.
std::optional<std::uint32_t> LayerOfName(std::string_view name);

// Neighbours of one layer become one part.
Result<std::vector<runtime::StatePart>> PartsOf(std::span<const TensorShare> shares);

}  // namespace skippy::llama
