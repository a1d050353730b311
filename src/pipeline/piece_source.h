// PieceSource: another process's pieces, which a stage asks for what it lacks (the model was cut
// another way before).
//
// Threads: one caller at a time. Errors: kUnavailable (away); the caller goes on without. Cost: the
// bytes of what is found.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/piece_store.h"
#include "skippy/result.h"

namespace skippy::pipeline {

class PieceSource {
 public:
  virtual ~PieceSource() = default;
  // Layers (of `layers`, ascending) of all pieces of these names.
  virtual Result<std::vector<StoredLayer>> Fetch(std::span<const Digest> names,
                                                 std::span<const std::uint32_t> layers) = 0;
};

}  // namespace skippy::pipeline
