#include "pipeline/activation_store.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <set>
#include <string>

#include "pipeline/recall.h"

namespace skippy::pipeline {
namespace {

// Rows are cut at multiples of it, so that texts that part share what lies before.
constexpr Pos kPage = 64;

// The namespace of activations at a place: no state has such a name.
Namespace ActivationNamespace(const ActivationPlace& place) {
  const std::string text = fmt::format("act:{}:{}:f32:", place.layer, place.width);
  Blake3Hasher hasher;
  hasher.Update(std::as_bytes(std::span(text)));
  hasher.Update(std::as_bytes(std::span(place.ns.key.bytes)));
  return {hasher.Finish()};
}

}  // namespace

void ActivationStore::Put(const ActivationPlace& place, TokenSpan text, PosRange positions,
                          std::span<const float> rows) {
  if (!on() || positions.empty() || positions.end > text.size() ||
      rows.size() != std::size_t{positions.size()} * place.width)
    return;
  const Namespace ns = ActivationNamespace(place);
  store_.NextMoment();
  for (Pos begin = positions.begin; begin < positions.end;) {
    const Pos end = std::min(positions.end, (begin / kPage + 1) * kPage);
    const auto part = std::as_bytes(rows.subspan(std::size_t{begin - positions.begin} * place.width,
                                                 std::size_t{end - begin} * place.width));
    const PieceKey key{PieceName(ns, text.first(end)), Component::kKv, {begin, end}};
    const std::pair<std::uint32_t, LayerBytes> layer{
        place.layer, std::make_shared<std::vector<std::byte>>(part.begin(), part.end())};
    if (!store_.Put(key, {&layer, 1})) return;
    begin = end;
  }
}

std::vector<ActivationStore::Part> ActivationStore::Parts(const ActivationPlace& place,
                                                          TokenSpan text) {
  const auto length = static_cast<Pos>(text.size());
  runtime::RecallQuery query;
  query.ns = ActivationNamespace(place);
  query.tokens = text;
  query.max_boundary = length;
  query.page = kPage;
  const auto pieces =
      PiecesOfText(query, [this](const std::vector<Digest>& names) -> Result<std::set<PieceKey>> {
        std::set<PieceKey> found;
        for (const Digest& name : names)
          for (const PieceKey& key : store_.KeysOf(name)) found.insert(key);
        return found;
      });
  MemoryShape rows;
  rows.kv_row_bytes = 1;
  std::vector<Part> parts;
  if (!pieces) return parts;
  for (const runtime::Recalled::Rows& part : ChooseRecall(rows, *pieces, length).rows)
    if (const auto key = ReadKey(Component::kKv, part.row)) parts.push_back({*key, part.positions});
  return parts;
}

Pos ActivationStore::Covered(const ActivationPlace& place, TokenSpan text) {
  const std::vector<Part> parts = Parts(place, text);
  return parts.empty() ? 0 : parts.back().positions.end;
}

std::optional<std::vector<float>> ActivationStore::Rows(const ActivationPlace& place,
                                                        TokenSpan text) {
  std::vector<float> rows;
  store_.NextMoment();
  for (const Part& part : Parts(place, text)) {
    const auto found = store_.Find(part.key, {&place.layer, 1});
    const std::size_t row_bytes = place.width * sizeof(float);
    if (found.empty() || found.front().second->size() != part.key.positions.size() * row_bytes)
      return std::nullopt;
    const std::size_t before = rows.size();
    rows.resize(before + std::size_t{part.positions.size()} * place.width);
    std::memcpy(rows.data() + before,
                found.front().second->data() +
                    (part.positions.begin - part.key.positions.begin) * row_bytes,
                part.positions.size() * row_bytes);
  }
  if (rows.size() != text.size() * place.width) return std::nullopt;
  return rows;
}

}  // namespace skippy::pipeline
