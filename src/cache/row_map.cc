#include "cache/row_map.h"

#include <algorithm>

namespace skippy::cache {

Extent Clip(const Extent& extent, PosRange range) {
  Extent part = extent;
  part.range.begin = std::max(extent.range.begin, range.begin);
  part.range.end = std::min(extent.range.end, range.end);
  part.first_row += part.range.begin - extent.range.begin;
  return part;
}

std::size_t RowMap::FirstEndingAfter(Pos p) const {
  const auto it = std::upper_bound(extents_.begin(), extents_.end(), p,
                                   [](Pos pos, const Extent& e) { return pos < e.range.end; });
  return static_cast<std::size_t>(it - extents_.begin());
}

void RowMap::AppendMissing(PosRange range, Provenance at_least, std::vector<PosRange>& out) const {
  Pos from = range.begin;  // everything before it is present or already reported
  const auto report = [&](Pos begin, Pos end) {
    if (begin >= end) return;
    if (!out.empty() && out.back().end == begin) {
      out.back().end = end;
    } else {
      out.push_back({begin, end});
    }
  };
  for (std::size_t i = FirstEndingAfter(range.begin); i < extents_.size(); ++i) {
    const Extent& extent = extents_[i];
    if (extent.range.begin >= range.end) break;
    report(from, extent.range.begin);
    from = std::min(extent.range.end, range.end);
    if (extent.provenance > at_least) report(std::max(extent.range.begin, range.begin), from);
  }
  report(from, range.end);
}

void RowMap::Insert(const Extent& extent, const RefAccount& account) {
  account.Add(extent.block);
  const auto at = static_cast<std::ptrdiff_t>(FirstEndingAfter(extent.range.begin));
  extents_.insert(extents_.begin() + at, extent);
  rows_ += extent.range.size();
}

void RowMap::Remove(PosRange range, const RefAccount& account) {
  if (range.empty()) return;
  std::size_t i = FirstEndingAfter(range.begin);
  if (i == extents_.size() || extents_[i].range.begin >= range.end) return;
  if (extents_[i].range.begin < range.begin) {
    const Extent whole = extents_[i];
    extents_[i].range.end = range.begin;
    rows_ -= std::min(whole.range.end, range.end) - range.begin;
    ++i;
    if (whole.range.end > range.end) {
      account.Add(whole.block);
      extents_.insert(extents_.begin() + static_cast<std::ptrdiff_t>(i),
                      Clip(whole, {range.end, whole.range.end}));
      return;
    }
  }
  std::size_t last = i;
  for (; last < extents_.size() && extents_[last].range.end <= range.end; ++last) {
    rows_ -= extents_[last].range.size();
    account.Drop(extents_[last].block);
  }
  extents_.erase(extents_.begin() + static_cast<std::ptrdiff_t>(i),
                 extents_.begin() + static_cast<std::ptrdiff_t>(last));
  if (i < extents_.size() && extents_[i].range.begin < range.end) {
    rows_ -= range.end - extents_[i].range.begin;
    extents_[i] = Clip(extents_[i], {range.end, extents_[i].range.end});
  }
}

RowMap RowMap::SplitBefore(Pos at, const RefAccount& account) {
  RowMap before;
  std::size_t count = FirstEndingAfter(at);
  const auto middle = extents_.begin() + static_cast<std::ptrdiff_t>(count);
  before.extents_.assign(extents_.begin(), middle);
  extents_.erase(extents_.begin(), middle);
  if (!extents_.empty() && extents_.front().range.begin < at) {
    before.extents_.push_back(Clip(extents_.front(), {0, at}));
    account.Add(extents_.front().block);
    extents_.front() = Clip(extents_.front(), {at, extents_.front().range.end});
  }
  for (const Extent& extent : before.extents_) before.rows_ += extent.range.size();
  rows_ -= before.rows_;
  return before;
}

void RowMap::Append(RowMap later, const RefAccount& account) {
  auto next = later.extents_.begin();
  if (!extents_.empty() && next != later.extents_.end()) {
    Extent& last = extents_.back();
    const bool halves = last.block == next->block && last.range.end == next->range.begin &&
                        last.first_row + last.range.size() == next->first_row &&
                        last.provenance == next->provenance;
    if (halves) {
      last.range.end = next->range.end;
      account.Drop(next->block);
      ++next;
    }
  }
  extents_.insert(extents_.end(), next, later.extents_.end());
  rows_ += later.rows_;
}

bool RowMap::RemoveCondemned(const RefAccount& account) {
  const auto keep = std::stable_partition(extents_.begin(), extents_.end(), [&](const Extent& e) {
    return !account.store.Condemned(e.block);
  });
  for (auto it = keep; it != extents_.end(); ++it) {
    rows_ -= it->range.size();
    account.Drop(it->block);
  }
  const bool any = keep != extents_.end();
  extents_.erase(keep, extents_.end());
  return any;
}

}  // namespace skippy::cache
