// Ranges of layers, and where to cut a model into stages.
//
// A range is [begin, end) of the whole model's layers, counted from 0; it is written "begin..end".
//
// Threads: pure functions. Errors: kInvalidArgument, with what was given and what would be right.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "skippy/result.h"

namespace skippy::stage {

struct LayerRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t size() const { return end - begin; }
  bool operator==(const LayerRange&) const = default;
};

std::string ToString(LayerRange range);  // "3..4"

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
