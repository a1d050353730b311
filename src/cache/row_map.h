// RowMap: which rows of one component a node has, as references into blocks.
//
// An extent says: rows of positions [begin, end) are rows first_row... of `block`. Extents are
// sorted, do not overlap and may leave gaps. Each extent holds one reference of its block; cutting
// an extent in two makes two references of the same block, no bytes move.
//
// Threads: single-threaded (owner). Errors: none. Cost: O(log extents) to find, O(extents moved) to
// change.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/block_store.h"
#include "skippy/prefix_cache.h"

namespace skippy::cache {

struct Extent {
  PosRange range;
  BlockId block;
  std::uint32_t first_row = 0;
  Provenance provenance = Provenance::kPrefill;
};

// The part of `extent` inside `range`. REQUIRES: they overlap.
Extent Clip(const Extent& extent, PosRange range);

// References are counted for the namespace that the node belongs to.
struct RefAccount {
  BlockStore& store;
  NamespaceSlot slot;
  void Add(BlockId id) const { store.Ref(id, slot); }
  void Drop(BlockId id) const { store.Unref(id, slot); }
};

class RowMap {
 public:
  const std::vector<Extent>& extents() const { return extents_; }
  bool empty() const { return extents_.empty(); }
  // Position after the last row; `otherwise` when there is none.
  Pos End(Pos otherwise) const { return extents_.empty() ? otherwise : extents_.back().range.end; }
  std::uint64_t rows() const { return rows_; }

  // Index of the first extent that ends behind `p`.
  std::size_t FirstEndingAfter(Pos p) const;
  // Appends the parts of `range` that are missing, or present with a provenance weaker than
  // `at_least`.
  void AppendMissing(PosRange range, Provenance at_least, std::vector<PosRange>& out) const;

  // Adds a reference. REQUIRES: nothing of extent.range is present.
  void Insert(const Extent& extent, const RefAccount& account);
  // Drops what lies in `range`; extents at its ends are trimmed or cut in two.
  void Remove(PosRange range, const RefAccount& account);
  // Moves everything before `at` into the returned map.
  RowMap SplitBefore(Pos at, const RefAccount& account);
  // Takes over everything of `later`. REQUIRES: it lies behind what is here.
  void Append(RowMap later, const RefAccount& account);
  // Drops every extent whose block is condemned; true if there was one.
  bool RemoveCondemned(const RefAccount& account);

 private:
  std::vector<Extent> extents_;
  std::uint64_t rows_ = 0;
};

}  // namespace skippy::cache
