#include "pipeline/recall.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <vector>

namespace skippy::pipeline {
namespace {

using Rows = runtime::Recalled::Rows;

std::vector<std::byte> KeyBytes(const PieceKey& key) {
  std::vector<std::byte> bytes(kKeyBytes);
  WriteKey(key, bytes);
  return bytes;
}

std::vector<PieceKey> Sorted(const std::set<PieceKey>& pieces, Component component) {
  std::vector<PieceKey> sorted;
  std::copy_if(pieces.begin(), pieces.end(), std::back_inserter(sorted),
               [&](const PieceKey& key) { return key.component == component; });
  std::sort(sorted.begin(), sorted.end(), [](const PieceKey& a, const PieceKey& b) {
    return a.positions.begin != b.positions.begin ? a.positions.begin < b.positions.begin
                                                  : a.positions.end > b.positions.end;
  });
  return sorted;
}

// As far of `range` as there is no gap. `sorted`: by their begins.
std::vector<Rows> Cover(const std::vector<PieceKey>& sorted, PosRange range) {
  std::vector<Rows> rows;
  Pos at = range.begin;
  for (const PieceKey& key : sorted) {
    if (at >= range.end || key.positions.begin > at) break;
    if (key.positions.end <= at) continue;
    const Pos end = std::min(key.positions.end, range.end);
    rows.push_back({key.component, {at, end}, KeyBytes(key)});
    at = end;
  }
  return rows;
}

Pos EndOf(const std::vector<Rows>& rows, Pos begin) {
  return rows.empty() ? begin : rows.back().positions.end;
}

}  // namespace

Result<std::set<PieceKey>> PiecesOfText(const runtime::RecallQuery& query, const FindByName& find) {
  const auto length = static_cast<Pos>(query.tokens.size());
  const Pos page = std::max<Pos>(query.page, 1);
  // The last piece may reach beyond the boundary that is asked for.
  const Pos limit = std::min<Pos>(length, query.max_boundary / page * page + page);
  std::set<Pos> places;
  for (Pos end = page; end <= limit; end += page) places.insert(end);
  for (const Pos place : query.places)
    if (place > 0 && place <= limit) places.insert(place);
  if (length > 0 && length <= limit) places.insert(length);
  std::set<Pos> asked;
  std::set<PieceKey> pieces;
  while (!places.empty()) {
    const std::vector<Pos> at(places.begin(), places.end());
    const std::vector<Digest> names = PieceNames(query.ns, query.tokens, at);
    std::map<Digest, Pos> ends;
    for (std::size_t i = 0; i < at.size(); ++i) ends.emplace(names[i], at[i]);
    asked.merge(places);
    places.clear();
    SKIPPY_TRY(const std::set<PieceKey> found, find(names));
    for (const PieceKey& piece : found) {
      const auto end = ends.find(piece.name);
      if (end == ends.end() || end->second != piece.positions.end) continue;
      pieces.insert(piece);
      const Pos begin = piece.positions.begin;
      if (begin > 0 && begin < piece.positions.end && !asked.contains(begin)) places.insert(begin);
    }
  }
  return pieces;
}

runtime::Recalled ChooseRecall(const MemoryShape& shape, const std::set<PieceKey>& pieces,
                               Pos max_boundary) {
  const std::vector<PieceKey> kv = Sorted(pieces, Component::kKv);
  const std::vector<PieceKey> window = Sorted(pieces, Component::kWindow);
  Pos limit = max_boundary;
  if (shape.HasKv()) limit = EndOf(Cover(kv, {0, max_boundary}), 0);

  // Deepest first. Attention may resume anywhere; what else there is has ends of its own.
  std::set<Pos, std::greater<>> places;
  places.insert(limit);
  for (const PieceKey& key : pieces)
    if (key.positions.end <= limit) places.insert(key.positions.end);
  for (const Pos place : places) {
    if (place == 0) break;
    runtime::Recalled recalled;
    recalled.boundary = place;
    if (shape.HasKv()) recalled.rows = Cover(kv, {0, place});
    if (shape.HasWindow()) {
      const PosRange needed{shape.WindowBegin(place), place};
      std::vector<Rows> rows = Cover(window, needed);
      if (EndOf(rows, needed.begin) < place) continue;
      recalled.rows.insert(recalled.rows.end(), rows.begin(), rows.end());
    }
    if (shape.HasSnapshot()) {
      const auto at = std::find_if(pieces.begin(), pieces.end(), [&](const PieceKey& key) {
        return key.component == Component::kSnapshot && key.positions.end == place;
      });
      if (at == pieces.end()) continue;
      recalled.snapshot = KeyBytes(*at);
    }
    return recalled;
  }
  return {};
}

}  // namespace skippy::pipeline
