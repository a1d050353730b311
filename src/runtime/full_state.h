// FullStateAccess: the whole serialised sequence as the runtime's own library writes it. The
// reference that certification holds the components against; never a way to serve a request.
//
// A runtime may implement it beside Runtime; the certifier asks by dynamic_cast. Only src/certify,
// src/llama, src/runtime and tests may include this header (tests/layers/check_layers.py): that is
// the proof that no production path can move a full state.
//
// Guarantees: what was imported goes on like the lane it was exported from, to the tokens; cells
// may differ, so logits may. A lane that was filled this way may refuse Truncate and Copy; Clear
// makes it whole again. Threads and errors as runtime.h says. Cost: the size of the state, a copy
// each.
#pragma once

#include <cstddef>
#include <vector>

#include "skippy/result.h"
#include "skippy/types.h"

namespace skippy::runtime {

class FullStateAccess {
 public:
  virtual ~FullStateAccess() = default;
  virtual Result<std::vector<std::byte>> ExportFullState(SeqId lane) = 0;
  // The lane must be empty; on error it is.
  virtual Status ImportFullState(SeqId lane, ByteSpan state) = 0;
};

}  // namespace skippy::runtime
