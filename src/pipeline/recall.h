// Which boundary of a text can be brought back from pieces that somebody holds.
//
// Threads: pure functions. Errors: those of `find`. Cost: O(pieces log pieces), and a few calls of
// `find`.
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "pipeline/piece.h"
#include "runtime/state_keeper.h"
#include "skippy/memory_shape.h"
#include "skippy/result.h"
#include "skippy/types.h"

namespace skippy::pipeline {

// All pieces of these names.
using FindByName = std::function<Result<std::set<PieceKey>>(const std::vector<Digest>& names)>;

// The pieces of a text that end at multiples of the page, at the query's places or at the end of
// the text, and those before them that they continue (pages are cut where prompts ended).
Result<std::set<PieceKey>> PiecesOfText(const runtime::RecallQuery& query, const FindByName& find);

// `pieces`: of one text, their names not looked at. The deepest boundary up to `max_boundary` that
// has all components of the shape, and the rows that it takes.
runtime::Recalled ChooseRecall(const MemoryShape& shape, const std::set<PieceKey>& pieces,
                               Pos max_boundary);

}  // namespace skippy::pipeline
