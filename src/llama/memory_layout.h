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
#include "runtime/stage_access.h"
#include "skippy/memory_shape.h"
#include "skippy/result.h"

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

// As StageAccess::Parts.
Result<std::vector<runtime::StatePart>> PartsOf(const MemoryLayout& layout, Component component);

// The context must be fresh: nothing decoded yet. `stage`: rows of a window that is never left are
// KV rows, so that a layer has the same component wherever the model is cut.
MemoryLayout InspectMemory(llama_context* context, const llama_model& model, bool stage = false);

}  // namespace skippy::llama
