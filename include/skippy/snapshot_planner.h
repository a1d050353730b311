// Where a prefill should stop to keep a state that cannot be cut back later (recurrent snapshots;
// window rows).
//
// A pure function: same input, same plan. Boundaries that come from the prompt alone (prompt end,
// message starts, multiples of `spacing`) fall on the same places for every request with that
// prefix, so two requests place the same snapshots. Junctions are the exception: they depend on
// what is stored.
//
// Cost: O(message_starts + junctions + prompt / spacing).
#pragma once

#include <span>
#include <vector>

#include "skippy/types.h"

namespace skippy {

struct SnapshotPlanInput {
  Pos resume = 0;      // the state at hand: boundaries lie behind it
  Pos prompt_end = 0;  // always a boundary
  // Ascending. The last ones and the first one behind the system text matter most; between them
  // every doubling of the distance to the end keeps one, so their number is bounded by
  // log2(prompt).
  std::span<const Pos> message_starts = {};
  // Where this prompt parts from stored text (LookupResult::first_different): the next prompt that
  // shares it can then resume exactly there.
  std::span<const Pos> junctions = {};
  Pos grid = 0;     // multiples of it are the chunk ends of a plain prefill; 0: no grid
  Pos spacing = 0;  // a boundary at least every so many tokens, rounded up to the grid; 0: none
  // Exactness::kBit: only multiples of the grid (message starts and junctions are rounded down to
  // it), and the prompt end.
  bool grid_only = false;
};

// Ascending, without duplicates, in (resume, prompt_end], always contains prompt_end; empty when
// nothing is left to prefill (resume >= prompt_end).
std::vector<Pos> PlanSnapshots(const SnapshotPlanInput& input);

}  // namespace skippy
