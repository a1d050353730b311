#include "pipeline/import_pieces.h"

#include "pipeline/piece.h"

namespace skippy::pipeline {

Status AppendPieces(const RowSlice& slice, Component component, std::vector<PieceSlice>& out) {
  if (slice.block.size() != slice.block_rows * kKeyBytes || slice.positions.empty() ||
      slice.first_row > slice.block_rows ||
      slice.positions.size() > slice.block_rows - slice.first_row)
    return Err(ErrorCode::kInvalidArgument, "import: a block that holds no names");
  for (Pos p = slice.positions.begin; p < slice.positions.end; ++p) {
    const std::size_t row = slice.first_row + (p - slice.positions.begin);
    const auto key = ReadKey(component, slice.block.subspan(row * kKeyBytes, kKeyBytes));
    if (!key || p < key->positions.begin || p >= key->positions.end)
      return Err(ErrorCode::kCorruption, "import: a row that names no piece of its position");
    if (!out.empty() && out.back().piece == *key && out.back().positions.end == p) {
      out.back().positions.end = p + 1;
    } else {
      out.push_back({*key, {p, p + 1}});
    }
  }
  return {};
}

std::set<PieceKey> PiecesOf(const StageRestore& restore) {
  std::set<PieceKey> pieces;
  for (const PieceSlice& slice : restore.kv) pieces.insert(slice.piece);
  for (const PieceSlice& slice : restore.window) pieces.insert(slice.piece);
  if (restore.snapshot) pieces.insert(*restore.snapshot);
  return pieces;
}

Result<StageRestore> RestoreOf(const runtime::ImportRequest& request) {
  StageRestore restore;
  restore.lane = request.lane;
  restore.end = request.end;
  for (const RowSlice& slice : request.kv)
    SKIPPY_RETURN_IF_ERROR(AppendPieces(slice, Component::kKv, restore.kv));
  for (const RowSlice& slice : request.window)
    SKIPPY_RETURN_IF_ERROR(AppendPieces(slice, Component::kWindow, restore.window));
  if (request.snapshot.empty()) return restore;
  restore.snapshot = ReadKey(Component::kSnapshot, request.snapshot);
  if (!restore.snapshot || restore.snapshot->positions.end != request.end)
    return Err(ErrorCode::kInvalidArgument, "import: a snapshot that is no name");
  return restore;
}

}  // namespace skippy::pipeline
