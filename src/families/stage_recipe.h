// How the models of a family are cut into stages of layers: the [stages] table of its file
// (families/README.md). What it says was tried against the whole model, bit by bit.
//
// Threads: plain data. Formulas: see formula.h; evaluated for the whole model's layers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace skippy::families {

// What becomes of the metadata about windows in a stage that has no layer with one.
enum class Windowless : std::uint8_t {
  kAsIs,
  kDropped,  // the keys go: the layout without a window is another one, and equal in result
  kMasked,   // every layer is called windowed, with a window as long as the context
};

struct StageRecipe {
  std::string refused;  // why a model of the family cannot be cut; empty: it can
  // Node of the graph that a layer's output leaves through; "-<layer>" is appended.
  std::string capture = "l_out";
  // Node that the input of a later stage is written to; empty: it enters as embeddings.
  std::string inject;
  std::string embedding_scale;  // factor on an embedding row before the first layer; empty: 1
  // Kinds of layers, a formula each. llama.cpp's graphs of hybrid models need a layer of each kind
  // in memory: a stage that lacks one gets a dummy of it, all zeros, whose result nobody reads.
  std::vector<std::string> kinds;
  // Formula: a stage may begin with this layer; and why not with others. Empty: with any.
  std::string begins;
  std::string begins_because;
  // Metadata keys that are written as one truth value a layer, by formula, so that a stage's layers
  // keep what they are; and keys that are dropped.
  std::map<std::string, std::string> layer_keys;
  std::vector<std::string> dropped;
  Windowless windowless = Windowless::kAsIs;
  bool needs_output = false;  // the architecture insists on output.weight in every file
  // Numbers of layers by which llama.cpp tells sizes of the architecture that compute differently:
  // a stage may have one of them only if the whole model has, and the other way round.
  std::vector<std::uint32_t> special_counts;
};

}  // namespace skippy::families
