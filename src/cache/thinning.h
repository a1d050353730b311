// Thinning: which state inside a run of tokens can go while the run itself stays.
//
// Snapshots are taken so that coverage stays even: the one whose removal leaves the smallest gap
// goes first, where a gap at a prompt end counts twice; the last one of a run and the newest prompt
// end do not go. Window rows go when no boundary that is kept for its own sake needs them, those
// nearest to the root first (edits and retries happen near the end).
//
// Pure functions. Threads: any. Errors: none. Cost: O(points + window extents of the node).
#pragma once

#include <functional>
#include <optional>

#include "cache/index.h"

namespace skippy::cache {

struct ThinUnit {
  Component component = Component::kSnapshot;  // or kWindow
  Pos at = 0;                                  // kSnapshot: the boundary
  PosRange rows;                               // kWindow: one whole extent
};

// How much may go, each level more than the one before. kSpare leaves the run's end and one step
// back: the last message start (or junction) before it, a second window. Texts are continued at
// their end or from there. A run that was continued at its end needs no step back, nor its end
// once a longer text is about to be stored. kThin leaves the end and the newest prompt's.
// kLastResort leaves what holds the run up.
enum class ThinLevel : std::uint8_t { kSpare, kThin, kLastResort };

struct ThinContext {
  const MemoryShape& shape;
  std::uint64_t newest_prompt = 0;  // Point::prompt_end of the newest prompt
  Pos snapshot_before = 0;          // the deepest snapshot above this node on its path; 0: none
  bool growing = false;  // a record that ends behind the node's end is being made room for
};

// What the node can spare; nothing pinned.
std::optional<ThinUnit> ChooseThin(const Node& node, const ThinContext& context,
                                   const BlockStore& store, ThinLevel level);

// Whether ChooseThin would find something if nothing were pinned.
bool HasThin(const Node& node, const ThinContext& context, ThinLevel level);

}  // namespace skippy::cache
