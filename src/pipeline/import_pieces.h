// What an import's rows stand for: each row is the key of a piece (piece.h).
//
// Threads: pure functions. Errors: kInvalidArgument (blocks of another form), kCorruption (a row
// that names no piece of its position).
#pragma once

#include <set>
#include <vector>

#include "pipeline/piece.h"
#include "pipeline/stage_link.h"
#include "runtime/runtime.h"
#include "skippy/result.h"
#include "skippy/row_slice.h"

namespace skippy::pipeline {

// Which pieces the rows of a slice stand for; they mostly are one piece's.
Status AppendPieces(const RowSlice& slice, Component component, std::vector<PieceSlice>& out);

// All that a restore takes.
std::set<PieceKey> PiecesOf(const StageRestore& restore);

// What an import asks of a stage that has all components.
Result<StageRestore> RestoreOf(const runtime::ImportRequest& request);

}  // namespace skippy::pipeline
