#include "cache/thinning.h"

#include <algorithm>
#include <limits>

namespace skippy::cache {
namespace {

// A prompt end is resumed more often than a boundary inside a prompt, so its gap counts this many
// times. Not more: else a conversation of many short turns keeps its last turns alone, and one
// rewind loses all.
constexpr std::uint64_t kPromptEndWeight = 2;

// The steps of thinning, gentlest first. Snapshots go from kSpare on: their order is that of the
// gaps.
enum class Level { kInner, kSpare, kThin, kLastResort };

class Thinner {
 public:
  // `store` null: pins are ignored.
  Thinner(const Node& node, const ThinContext& context, const BlockStore* store)
      : node_(node), context_(context), store_(store), step_back_(StepBackOf(node)) {}

  std::optional<ThinUnit> Choose(Level level) const {
    if (context_.shape.HasWindow()) {
      if (auto unit = ChooseWindow(level)) return unit;
    }
    if (context_.shape.HasSnapshot() && level != Level::kInner) return ChooseSnapshot(level);
    return std::nullopt;
  }

 private:
  // The last snapshot before that of the run's end, of one that is there for more than spacing if
  // there is such; 0: none.
  static Pos StepBackOf(const Node& node) {
    Pos any = 0;
    bool at_end = true;
    for (auto it = node.points.rbegin(); it != node.points.rend(); ++it) {
      if (!it->snapshot) continue;
      if (!at_end && it->part_start) return it->at;
      if (!at_end && it->prompt_end == 0) any = std::max(any, it->at);
      at_end = false;
    }
    return any;
  }

  bool SnapshotIsPrimary() const { return !context_.shape.HasKv() && !context_.shape.HasWindow(); }

  // The end of the run will not be its end any more, nor is it needed as a step back.
  bool EndIsPassed() const { return context_.growing && node_.continued && !SnapshotIsPrimary(); }

  // Where a text was seen to go on at its end, that is where it will go on.
  bool KeepsAStepBack(Level level) const { return level < Level::kThin && !node_.continued; }

  // Window rows from here on make the boundaries within a window of the end usable too.
  Pos WindowStepBack() const {
    return context_.shape.WindowBegin(context_.shape.WindowBegin(node_.end()));
  }

  bool Pinned(BlockId block) const { return store_ != nullptr && store_->Pinned(block); }

  // The window rows before this boundary are kept at this level.
  bool IsAnchor(const Point& point, Level level) const {
    if (level == Level::kLastResort) return false;
    if (context_.shape.HasSnapshot()) return point.snapshot.has_value();
    if (point.prompt_end == 0) return false;
    return level == Level::kInner || point.prompt_end == context_.newest_prompt;
  }

  std::optional<ThinUnit> ChooseWindow(Level level) const {
    const auto& extents = node_.Rows(Component::kWindow).extents();
    const bool window_is_primary = !context_.shape.HasKv();
    std::size_t point = 0;
    for (std::size_t i = 0; i < extents.size(); ++i) {
      const Extent& extent = extents[i];
      // The nearest anchor behind the extent's first row has the window that reaches furthest back.
      while (point < node_.points.size() && (node_.points[point].at <= extent.range.begin ||
                                             !IsAnchor(node_.points[point], level))) {
        ++point;
      }
      bool needed = false;
      if (level != Level::kLastResort) {
        const Pos anchor = point < node_.points.size() ? node_.points[point].at : node_.end();
        Pos from = context_.shape.WindowBegin(anchor);
        if (KeepsAStepBack(level) && !context_.shape.HasSnapshot())
          from = std::min(from, WindowStepBack());
        needed = from < extent.range.end;
      } else {
        needed = window_is_primary && node_.IsLeaf() && i + 1 == extents.size();
      }
      if (!needed && !Pinned(extent.block)) return ThinUnit{Component::kWindow, 0, extent.range};
    }
    return std::nullopt;
  }

  bool MayGo(const Point& point, bool is_last, Level level) const {
    if (Pinned(*point.snapshot)) return false;
    if (KeepsAStepBack(level) && point.at == step_back_) return false;
    if (level != Level::kLastResort) {
      const bool newest = point.prompt_end != 0 && point.prompt_end == context_.newest_prompt;
      return !is_last && !newest;
    }
    // A leaf that snapshots alone hold up is cut from its end, not hollowed out.
    return !(is_last && SnapshotIsPrimary() && node_.IsLeaf());
  }

  std::optional<ThinUnit> ChooseSnapshot(Level level) const {
    std::optional<Pos> best;
    std::uint64_t best_gap = 0;
    Pos before = context_.snapshot_before;
    const Point* current = nullptr;
    const auto consider = [&](Pos next, bool is_last) {
      if (current == nullptr) return;
      std::uint64_t gap = std::uint64_t{next} - before;
      if (current->prompt_end != 0) gap *= kPromptEndWeight;
      // The end of the run comes after all others.
      if (is_last) gap = std::numeric_limits<std::uint64_t>::max();
      if (MayGo(*current, is_last, level) && (!best || gap < best_gap)) {
        best = current->at;
        best_gap = gap;
      }
      before = current->at;
    };
    for (const Point& point : node_.points) {
      if (!point.snapshot) continue;
      consider(point.at, false);
      current = &point;
    }
    consider(node_.end(), !EndIsPassed());
    if (!best) return std::nullopt;
    return ThinUnit{Component::kSnapshot, *best, {}};
  }

  const Node& node_;
  const ThinContext& context_;
  const BlockStore* store_;
  const Pos step_back_;
};

std::optional<ThinUnit> ChooseFrom(const Thinner& thinner, ThinLevel level) {
  if (level == ThinLevel::kLastResort) return thinner.Choose(Level::kLastResort);
  if (auto unit = thinner.Choose(Level::kInner)) return unit;
  return thinner.Choose(level == ThinLevel::kSpare ? Level::kSpare : Level::kThin);
}

}  // namespace

std::optional<ThinUnit> ChooseThin(const Node& node, const ThinContext& context,
                                   const BlockStore& store, ThinLevel level) {
  return ChooseFrom(Thinner(node, context, &store), level);
}

bool HasThin(const Node& node, const ThinContext& context, ThinLevel level) {
  return ChooseFrom(Thinner(node, context, nullptr), level).has_value();
}

}  // namespace skippy::cache
