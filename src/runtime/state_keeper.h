// StateKeeper: a runtime that keeps exported state itself. What its ExportRows and ExportSnapshot
// give are names of what it keeps, far smaller than the state, and Import brings back what was
// named (a model in stages: each stage keeps its own layers).
//
// A runtime may implement it beside Runtime; the engine asks by dynamic_cast. What is kept may be
// lost behind the caller's back (a cap, a restart): the caller asks before it imports, and forgets
// what is gone.
//
// Threads as runtime.h says.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/runtime.h"
#include "skippy/identity.h"
#include "skippy/memory_shape.h"
#include "skippy/result.h"
#include "skippy/types.h"

namespace skippy::runtime {

// Indices into a request's slices.
struct MissingParts {
  std::vector<std::size_t> kv;
  std::vector<std::size_t> window;
  bool snapshot = false;
  bool any() const { return !kv.empty() || !window.empty() || snapshot; }
};

struct RecallQuery {
  Namespace ns;
  TokenSpan tokens;
  Pos max_boundary = 0;
  // Where state may have been kept: at multiples of a page, and at these places.
  Pos page = 1;
  std::span<const Pos> places;
};

// What a text can be brought back from, as exports would give it.
struct Recalled {
  struct Rows {
    Component component = Component::kKv;
    PosRange positions;
    std::vector<std::byte> row;  // of each position
  };
  Pos boundary = 0;        // 0: nothing
  std::vector<Rows> rows;  // of a component without gap or overlap, ascending
  std::vector<std::byte> snapshot;
};

class StateKeeper {
 public:
  virtual ~StateKeeper() = default;
  // What the lane holds from now on belongs to this namespace: equal text in another one has other
  // names. Before: an empty namespace.
  virtual void Bind(SeqId lane, const Namespace& ns) = 0;
  // What of the request could not be imported now. An error: it cannot be told, a part of the
  // runtime is away.
  virtual Result<MissingParts> FindMissing(const ImportRequest& request) = 0;
  // The deepest boundary that is kept, whoever kept it (before the caller was started, say). How it
  // was computed is not known. Errors as FindMissing.
  virtual Result<Recalled> Recall(const RecallQuery& query) = 0;
  // Drops all that is kept, whoever kept it. An error: a part of the runtime is away and may still
  // keep its share.
  virtual Status Forget() = 0;
};

}  // namespace skippy::runtime
