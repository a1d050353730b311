// PieceStore: the pieces that a process keeps for its stages, layer by layer.
//
// Keyed by the whole model's layer numbers, so that a stage that holds other layers than the one
// that stored a piece finds what it needs of it (the model was cut elsewhere meanwhile).
//
// Guarantees: bytes() never exceeds the cap. What was used longest ago goes first; of what was used
// at the same time the end of a text goes before its beginning, since the beginning is worth
// something alone. Threads: thread-safe; what Find returned stays alive while it is held. Errors:
// kResourceExhausted (larger than the cap alone). Cost: O(log pieces) a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "pipeline/layer_range.h"
#include "pipeline/piece.h"
#include "skippy/result.h"

namespace skippy::pipeline {

using LayerBytes = std::shared_ptr<const std::vector<std::byte>>;

struct StoredLayer {
  PieceKey key;
  std::uint32_t layer = 0;
  LayerBytes bytes;
};

class PieceStore {
 public:
  explicit PieceStore(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}
  PieceStore(const PieceStore&) = delete;
  PieceStore& operator=(const PieceStore&) = delete;

  // Layers that are there already are replaced. One call is one use.
  Status Put(const PieceKey& key, std::span<const std::pair<std::uint32_t, LayerBytes>> layers);
  // The layers of `wanted` that are there; counts as a use. `wanted`: ascending.
  std::vector<std::pair<std::uint32_t, LayerBytes>> Find(const PieceKey& key,
                                                         std::span<const std::uint32_t> wanted);
  // Whether all of them are there; no use.
  bool Has(const PieceKey& key, std::span<const std::uint32_t> wanted) const;
  // Of all pieces of these names the layers that are there; no use.
  std::vector<StoredLayer> Copies(std::span<const Digest> names,
                                  std::span<const std::uint32_t> layers) const;
  // All pieces of that name, whichever layers of them are there.
  std::vector<PieceKey> KeysOf(const Digest& name) const;
  void Drop(const PieceKey& key);
  void DropAll();

  // Counts as a use of those that are there.
  void Touch(const std::set<PieceKey>& keys);

  // Uses that follow count as one moment, so that of a long prefix its end goes first. Returns its
  // number.
  std::uint64_t NextMoment();
  std::uint64_t moment() const;

  std::uint64_t bytes() const;
  std::uint64_t max_bytes() const { return max_bytes_; }
  std::size_t pieces() const;

 private:
  struct Piece {
    std::map<std::uint32_t, LayerBytes> layers;
    std::uint64_t bytes = 0;
    std::uint64_t used = 0;
  };
  using Map = std::map<PieceKey, Piece>;
  // Ascending: the first goes first.
  using Age = std::tuple<std::uint64_t, std::int64_t, PieceKey>;  // used, -end, key
  static Age AgeOf(const PieceKey& key, const Piece& piece);
  void Use(Map::iterator at);
  void Erase(Map::iterator at);

  const std::uint64_t max_bytes_;
  mutable std::mutex mutex_;
  Map pieces_;
  std::set<Age> by_age_;
  std::uint64_t bytes_ = 0;
  std::uint64_t moment_ = 0;
};

}  // namespace skippy::pipeline
