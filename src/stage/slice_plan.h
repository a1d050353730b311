// What the file of one stage consists of: which tensors, under which names, with which metadata.
//
// A stage is a model of its own to llama.cpp: its layers are numbered from 0. Weights are the whole
// model's, byte for byte; what the architecture insists on and nobody reads (a vocabulary in the
// middle, a layer of a kind that the range lacks) is zeros, written as holes.
//
// Its counterpart is the hollow model: all layers under their own numbers, of which those of one
// range have their weights. The others compute, but on zeros where there are matrices: what a stage
// is held against where the whole model does not fit.
//
// Threads: pure functions. Errors: kUnsupported (the family's reason why it cannot be cut),
// kInvalidArgument (a range beyond the model, a file whose tensors do not fit its metadata).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "families/family.h"
#include "stage/layer_range.h"
#include "stage/source.h"

namespace skippy::stage {

// Tokens of a vocabulary that nobody reads.
inline constexpr std::uint32_t kStubVocabulary = 32;

// How a stage's input enters, or its output leaves.
struct Boundary {
  std::string node;         // of the graph; empty: as embeddings (input), as logits (output)
  std::uint32_t width = 0;  // floats a token
  bool operator==(const Boundary&) const = default;
};

struct PlannedTensor {
  std::string name;
  const SourceTensor* source = nullptr;  // null: zeros of this type and shape
  int type = 0;
  std::vector<std::int64_t> shape;
};

// One layer of the stage: a layer of the whole model, or a dummy in the shape of one.
struct StageLayer {
  std::uint32_t source = 0;
  bool dummy = false;
};

using KeyValue = std::variant<std::uint32_t, std::string, std::vector<bool>>;

// What the first stage's file has of the vocabulary: rows enter it in both cases.
enum class FirstStage : std::uint8_t {
  kStub,  // nothing: the vocabulary package has it
  kReal,  // embedding rows and tokenizer: tokens may enter too, and it stands for that package
};

struct SlicePlan {
  LayerRange layers;
  bool last = false;
  std::vector<StageLayer> order;
  std::uint32_t dummies_in_front = 0;  // of `order`
  Boundary input;
  Boundary output;
  std::vector<std::string> added;  // what is not the whole model's, in words
  std::vector<PlannedTensor> tensors;
  // Metadata, by full key. Lists with one entry a layer are cut to `order` besides.
  std::map<std::string, KeyValue> set;
  std::set<std::string> dropped;
  bool tokenizer = false;  // keeps tokenizer.*
};

// Layers that can be cut: without draft heads (multi-token prediction), which stages do not carry.
Result<std::uint32_t> LayersOf(const Source& source);
// Numbers in all tensors of its files.
std::uint64_t ParametersOf(const Source& source);
// Layers that a stage may begin with, ascending; 0 is one.
Result<std::vector<std::uint32_t>> BeginsOf(const Source& source, const families::Family& family);
// Bytes of each layer, of the head, and of what a real first stage has besides; for CutInto and
// CutBelow.
Result<Weights> WeightsOf(const Source& source, FirstStage first);

// `family`: the model's, or a default one. The source must outlive the plan.
Result<SlicePlan> PlanSlice(const Source& source, const families::Family& family, LayerRange range,
                            FirstStage first = FirstStage::kStub);
// The hollow model of a range. `input` is the node of what enters the range's first layer (none:
// embeddings do), `output` of what leaves its last (none: logits do); tokens enter.
Result<SlicePlan> PlanHollow(const Source& source, const families::Family& family,
                             LayerRange range);
// The tokenizer, the template and the embedding rows: what the coordinator needs of the model.
Result<SlicePlan> PlanVocabulary(const Source& source);

}  // namespace skippy::stage
