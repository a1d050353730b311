// Which of llama.cpp's memory classes a context has, and which tensors belong to which component.
//
// Guarantees: the shape is measured from the real tensors. A class that cannot be restored exactly,
// or that this version does not know, gives policy kOff with a reason; its context still decodes.
// Threads: engine thread only. Errors: none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "llama/cell_cache.h"
#include "llama/recurrent_state.h"
#include "skippy/memory_shape.h"

struct llama_context;
struct llama_model;

namespace skippy::llama {

struct MemoryLayout {
  std::vector<CellCache> kv;        // append-only, cell == position
  std::optional<CellCache> window;  // a ring, or full size with swa_full
  std::optional<RecurrentState> recurrent;
  MemoryShape shape;
  PayloadPolicy policy = PayloadPolicy::kOff;
  std::string reason;  // why kOff, or a note
};

// The context must be fresh: nothing decoded yet.
MemoryLayout InspectMemory(llama_context* context, const llama_model& model);

}  // namespace skippy::llama
