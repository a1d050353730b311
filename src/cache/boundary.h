// Which boundaries of a path can be restored (invariant I7: all components there, or not usable).
//
// Pure functions over a path. Threads: single-threaded (owner). Errors: none.
// Cost: O(extents and points on the path): each is looked at a bounded number of times.
#pragma once

#include <optional>

#include "cache/index.h"

namespace skippy::cache {

struct BoundaryRules {
  MemoryShape shape;
  Exactness exactness = Exactness::kToken;
  Pos grid = 0;  // kBit only

  bool Accepts(Provenance provenance) const {
    return exactness == Exactness::kToken || provenance == Provenance::kGrid;
  }
  // Largest boundary <= p that the exactness permits at all.
  Pos RoundDown(Pos p) const {
    if (exactness == Exactness::kToken) return p;
    return grid > 0 ? p - p % grid : 0;
  }
};

// Length of the gapless run of acceptable KV rows from 0; `limit` at most, and `limit` if the shape
// has none.
Pos KvFrontier(const Path& path, const BoundaryRules& rules, Pos limit);

// Deepest usable boundary in (0, limit], or 0.
Pos DeepestUsable(const Path& path, const BoundaryRules& rules, Pos limit);

inline bool Usable(const Path& path, const BoundaryRules& rules, Pos boundary) {
  return boundary > 0 && boundary <= path.matched &&
         DeepestUsable(path, rules, boundary) == boundary;
}

// Visits the extents of `component` that overlap `range`, clipped to it, in ascending order.
template <class Visit>
void ForEachExtent(const Path& path, Component component, PosRange range, Visit visit) {
  if (range.empty()) return;
  for (const Node* node : path.nodes) {
    if (node->end() <= range.begin) continue;
    if (node->begin >= range.end) break;
    const RowMap& rows = node->Rows(component);
    for (std::size_t i = rows.FirstEndingAfter(range.begin); i < rows.extents().size(); ++i) {
      const Extent& extent = rows.extents()[i];
      if (extent.range.begin >= range.end) break;
      visit(Clip(extent, range));
    }
  }
}

}  // namespace skippy::cache
