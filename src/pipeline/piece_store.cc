#include "pipeline/piece_store.h"

#include <fmt/format.h>

#include <algorithm>

namespace skippy::pipeline {

PieceStore::Age PieceStore::AgeOf(const PieceKey& key, const Piece& piece) {
  return {piece.used, -static_cast<std::int64_t>(key.positions.end), key};
}

void PieceStore::Use(Map::iterator at) {
  by_age_.erase(AgeOf(at->first, at->second));
  at->second.used = moment_;
  by_age_.insert(AgeOf(at->first, at->second));
}

void PieceStore::Erase(Map::iterator at) {
  bytes_ -= at->second.bytes;
  by_age_.erase(AgeOf(at->first, at->second));
  pieces_.erase(at);
}

Status PieceStore::Put(const PieceKey& key,
                       std::span<const std::pair<std::uint32_t, LayerBytes>> layers) {
  std::uint64_t added = 0;
  for (const auto& [layer, bytes] : layers) added += bytes->size();
  const std::lock_guard lock(mutex_);
  const auto there = pieces_.find(key);
  std::uint64_t after = added;
  if (there != pieces_.end()) {
    after += there->second.bytes;
    for (const auto& [layer, bytes] : layers)
      if (const auto old = there->second.layers.find(layer); old != there->second.layers.end())
        after -= old->second->size();
  }
  if (after > max_bytes_)
    return Err(
        ErrorCode::kResourceExhausted,
        fmt::format("a piece of {} bytes does not fit into a store of {}", after, max_bytes_));
  // Taken out first, so that making room cannot evict what it is made for.
  Piece piece;
  if (there != pieces_.end()) {
    piece = there->second;
    Erase(there);
  }
  while (bytes_ + after > max_bytes_) Erase(pieces_.find(std::get<PieceKey>(*by_age_.begin())));
  for (const auto& [layer, bytes] : layers) piece.layers[layer] = bytes;
  piece.bytes = after;
  piece.used = moment_;
  bytes_ += after;
  by_age_.insert(AgeOf(key, piece));
  pieces_.emplace(key, std::move(piece));
  return {};
}

std::vector<std::pair<std::uint32_t, LayerBytes>> PieceStore::Find(
    const PieceKey& key, std::span<const std::uint32_t> wanted) {
  std::vector<std::pair<std::uint32_t, LayerBytes>> found;
  const std::lock_guard lock(mutex_);
  const auto there = pieces_.find(key);
  if (there == pieces_.end()) return found;
  Use(there);
  for (const std::uint32_t layer : wanted)
    if (const auto at = there->second.layers.find(layer); at != there->second.layers.end())
      found.emplace_back(*at);
  return found;
}

bool PieceStore::Has(const PieceKey& key, std::span<const std::uint32_t> wanted) const {
  const std::lock_guard lock(mutex_);
  const auto there = pieces_.find(key);
  return there != pieces_.end() &&
         std::all_of(wanted.begin(), wanted.end(),
                     [&](std::uint32_t layer) { return there->second.layers.contains(layer); });
}

std::vector<StoredLayer> PieceStore::Copies(std::span<const Digest> names,
                                            std::span<const std::uint32_t> layers) const {
  std::vector<StoredLayer> copies;
  const std::lock_guard lock(mutex_);
  for (const Digest& name : names)
    for (auto at = pieces_.lower_bound(PieceKey{name, Component{}, {}});
         at != pieces_.end() && at->first.name == name; ++at)
      for (const std::uint32_t layer : layers)
        if (const auto held = at->second.layers.find(layer); held != at->second.layers.end())
          copies.push_back({at->first, layer, held->second});
  return copies;
}

std::vector<PieceKey> PieceStore::KeysOf(const Digest& name) const {
  std::vector<PieceKey> keys;
  const std::lock_guard lock(mutex_);
  // Keys are ordered by name first.
  for (auto at = pieces_.lower_bound(PieceKey{name, Component{}, {}});
       at != pieces_.end() && at->first.name == name; ++at)
    keys.push_back(at->first);
  return keys;
}

void PieceStore::Drop(const PieceKey& key) {
  const std::lock_guard lock(mutex_);
  if (const auto there = pieces_.find(key); there != pieces_.end()) Erase(there);
}

void PieceStore::Touch(const std::set<PieceKey>& keys) {
  const std::lock_guard lock(mutex_);
  for (const PieceKey& key : keys)
    if (const auto there = pieces_.find(key); there != pieces_.end()) Use(there);
}

void PieceStore::DropAll() {
  const std::lock_guard lock(mutex_);
  pieces_.clear();
  by_age_.clear();
  bytes_ = 0;
}

std::uint64_t PieceStore::NextMoment() {
  const std::lock_guard lock(mutex_);
  return ++moment_;
}

std::uint64_t PieceStore::moment() const {
  const std::lock_guard lock(mutex_);
  return moment_;
}

std::uint64_t PieceStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::size_t PieceStore::pieces() const {
  const std::lock_guard lock(mutex_);
  return pieces_.size();
}

}  // namespace skippy::pipeline
