// Where to cut a model into stages.
//
// Threads: pure functions. Errors: kInvalidArgument, with what was given and what would be right.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "pipeline/layer_range.h"
#include "skippy/result.h"

namespace skippy::stage {

using pipeline::LayerRange;
using pipeline::ToString;

// "0..10,10..20": in order, each beginning where the one before ended. One range alone may lie
// anywhere; several need not cover the model. `layers`: how many the model has.
Result<std::vector<LayerRange>> ParseRanges(std::string_view text, std::uint32_t layers);

// `stages` ranges over all layers, so that the heaviest is as light as can be. `bytes`: of each
// layer; `first` and `last`: what the first and the last stage carry besides.
struct Weights {
  std::vector<std::uint64_t> layers;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};
Result<std::vector<LayerRange>> CutInto(std::uint32_t stages, const Weights& bytes);

// As few ranges as possible, none heavier than `most` bytes. Error: a layer (with what its end
// carries) is heavier alone; it is named.
Result<std::vector<LayerRange>> CutBelow(std::uint64_t most, const Weights& bytes);

}  // namespace skippy::stage
