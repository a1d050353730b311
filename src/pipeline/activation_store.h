// ActivationStore: what left a stage, kept by the coordinator, so that a stage that lost its state
// can compute it again alone, without those before it.
//
// Keys are "act:" names: of the text, the layer behind the boundary and the width; rows are kept as
// they came (f32). Threads: thread-safe. Errors: none; what does not fit is not kept. Cost: width *
// 4 bytes a token and boundary.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pipeline/piece_store.h"
#include "skippy/identity.h"
#include "skippy/types.h"

namespace skippy::pipeline {

// Where a layer's input is.
struct ActivationPlace {
  Namespace ns;
  std::uint32_t layer = 0;  // that the rows enter
  std::uint32_t width = 0;
};

class ActivationStore {
 public:
  // 0: keeps nothing.
  explicit ActivationStore(std::uint64_t max_bytes) : store_(max_bytes) {}

  bool on() const { return store_.max_bytes() > 0; }
  std::uint64_t bytes() const { return store_.bytes(); }
  void DropAll() { store_.DropAll(); }
  // `text`: up to the last row; rows: of `positions`, which end there.
  void Put(const ActivationPlace& place, TokenSpan text, PosRange positions,
           std::span<const float> rows);
  // Up to where there are rows of the text from its beginning.
  Pos Covered(const ActivationPlace& place, TokenSpan text);
  // Rows of the whole text; none: they are not all there.
  std::optional<std::vector<float>> Rows(const ActivationPlace& place, TokenSpan text);

 private:
  struct Part {
    PieceKey key;
    PosRange positions;
  };
  std::vector<Part> Parts(const ActivationPlace& place, TokenSpan text);

  PieceStore store_;
};

}  // namespace skippy::pipeline
