#include "cache/boundary.h"

#include <algorithm>

namespace skippy::cache {
namespace {

// Walks the window extents of a path from its end towards 0.
class WindowScan {
 public:
  WindowScan(const Path& path, const BoundaryRules& rules)
      : path_(path), rules_(rules), node_(path.nodes.size()) {}

  // Deepest boundary <= p whose window rows may be there, judged by the rows that `p` needs: `p`
  // itself when they are all there, else the end of the next acceptable rows below the gap. Calls
  // with falling p.
  Pos Check(Pos p) {
    const Pos need_from = rules_.shape.WindowBegin(p);
    Pos covered_from = p;
    while (covered_from > need_from) {
      const Extent* extent = LastStartingBefore(covered_from);
      if (extent == nullptr) return 0;
      if (extent->range.end < covered_from) return extent->range.end;
      covered_from = extent->range.begin;
    }
    return p;
  }

 private:
  // The acceptable extent with the largest begin below `p`; moves on, never back above it.
  const Extent* LastStartingBefore(Pos p) {
    for (;;) {
      while (index_ > 0) {
        const Extent& extent = Extents()[index_ - 1];
        if (extent.range.begin < p && rules_.Accepts(extent.provenance)) return &extent;
        --index_;
      }
      if (node_ == 0) return nullptr;
      --node_;
      index_ = Extents().size();
    }
  }

  const std::vector<Extent>& Extents() const {
    return path_.nodes[node_]->Rows(Component::kWindow).extents();
  }

  const Path& path_;
  const BoundaryRules& rules_;
  std::size_t node_;
  std::size_t index_ = 0;
};

// Deepest boundary <= limit with an acceptable snapshot; 0: none.
class SnapshotScan {
 public:
  SnapshotScan(const Path& path, const BoundaryRules& rules)
      : path_(path), rules_(rules), node_(path.nodes.size()) {}

  Pos Next(Pos limit) {
    for (;;) {
      while (index_ > 0) {
        const Point& point = path_.nodes[node_]->points[index_ - 1];
        if (point.at <= limit && point.snapshot && rules_.Accepts(point.snapshot_provenance) &&
            rules_.RoundDown(point.at) == point.at) {
          return point.at;
        }
        --index_;
      }
      if (node_ == 0) return 0;
      --node_;
      index_ = path_.nodes[node_]->points.size();
    }
  }

 private:
  const Path& path_;
  const BoundaryRules& rules_;
  std::size_t node_;
  std::size_t index_ = 0;
};

}  // namespace

Pos KvFrontier(const Path& path, const BoundaryRules& rules, Pos limit) {
  limit = std::min(limit, path.matched);
  if (!rules.shape.HasKv()) return limit;
  Pos frontier = 0;
  for (const Node* node : path.nodes) {
    for (const Extent& extent : node->Rows(Component::kKv).extents()) {
      if (extent.range.begin != frontier || !rules.Accepts(extent.provenance)) return frontier;
      frontier = extent.range.end;
      if (frontier >= limit) return limit;
    }
    if (frontier != node->end()) return frontier;
  }
  return frontier;
}

Pos DeepestUsable(const Path& path, const BoundaryRules& rules, Pos limit) {
  Pos p = KvFrontier(path, rules, limit);
  WindowScan window(path, rules);
  SnapshotScan snapshots(path, rules);
  for (;;) {
    p = rules.RoundDown(p);
    if (rules.shape.HasSnapshot()) p = snapshots.Next(p);
    if (p == 0 || !rules.shape.HasWindow()) return p;
    const Pos next = window.Check(p);
    if (next == p) return p;
    p = next;
  }
}

}  // namespace skippy::cache
