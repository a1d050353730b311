#include "stage/slice_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ggml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "families/formula.h"

namespace skippy::stage {
namespace {

using families::StageRecipe;
using families::Windowless;

constexpr std::string_view kLayerPrefix = "blk.";
constexpr std::string_view kTokens = "token_embd.weight";
constexpr std::string_view kHead = "output.weight";
// Of a model in several files, which its slices are not.
constexpr std::array kPartKeys = {"split.no", "split.count", "split.tensors.count"};
constexpr std::uint32_t kEndlessWindow = 1U << 30U;  // longer than any context

std::optional<double> Scalar(const Source& source, std::string_view key) {
  const families::ModelFacts& facts = source.facts();
  const auto found = facts.numbers.find(facts.architecture + "." + std::string(key));
  if (found == facts.numbers.end() || found->second.values.empty()) return std::nullopt;
  return found->second.values.front();
}

struct LayerTensor {
  std::uint32_t layer;
  std::string_view rest;  // behind "blk.N."
};
std::optional<LayerTensor> SplitName(std::string_view name) {
  if (!name.starts_with(kLayerPrefix)) return std::nullopt;
  name.remove_prefix(kLayerPrefix.size());
  std::uint32_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.') return std::nullopt;
  return LayerTensor{layer, name.substr(static_cast<std::size_t>(end - name.data()) + 1)};
}

// For tensors that nobody reads: the type that takes least room in memory where it must be read.
int HoleType(std::int64_t row) {
  return row % ggml_blck_size(GGML_TYPE_TQ1_0) == 0  ? GGML_TYPE_TQ1_0
         : row % ggml_blck_size(GGML_TYPE_Q4_0) == 0 ? GGML_TYPE_Q4_0
                                                     : GGML_TYPE_F16;
}

class Planner {
 public:
  Planner(const Source& source, const families::Family& family, FirstStage first)
      : source_(source),
        first_(first),
        family_(family),
        recipe_(family.stages),
        formulas_(family.values, source.facts(), families::KvTypes()) {}

  Result<SlicePlan> Plan(LayerRange range);

 private:
  std::string Key(std::string_view key) const {
    return fmt::format("{}.{}", source_.facts().architecture, key);
  }
  Status CheckCut();
  Status Order();
  Status AvoidSpecialCounts();
  Result<std::vector<std::uint32_t>> Missing();
  Status Keys();
  Status WindowKeys();
  Status LeadingDense();
  void Boundaries();
  Status LayerTensors();
  Status EndTensors();
  void Add(std::string name, const SourceTensor& source) {
    plan_.tensors.push_back({std::move(name), &source, source.type, source.shape});
  }
  void AddZeros(std::string name, int type, std::vector<std::int64_t> shape) {
    plan_.tensors.push_back({std::move(name), nullptr, type, std::move(shape)});
  }
  bool TakesTokens() const { return plan_.layers.begin == 0 && first_ == FirstStage::kReal; }
  void CountFrontDummies() {
    std::uint32_t& count = plan_.dummies_in_front;
    while (count < plan_.order.size() && plan_.order[count].dummy) ++count;
  }

  const Source& source_;
  const FirstStage first_;
  const families::Family& family_;
  const StageRecipe& recipe_;
  families::Evaluator formulas_;
  std::uint32_t whole_ = 0;  // layers of the model
  std::uint32_t embedding_ = 0;
  SlicePlan plan_;
};

Status Planner::CheckCut() {
  if (!recipe_.refused.empty())
    return Err(ErrorCode::kUnsupported, fmt::format("models of the architecture {} cannot be cut "
                                                    "into stages: {}",
                                                    source_.facts().architecture, recipe_.refused));
  if (plan_.layers.begin >= plan_.layers.end || plan_.layers.end > whole_)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("the range {} is not within the model's layers 0..{}",
                           ToString(plan_.layers), whole_));
  SKIPPY_TRY(const std::vector<std::uint32_t> begins, BeginsOf(source_, family_));
  if (!std::binary_search(begins.begin(), begins.end(), plan_.layers.begin) ||
      (plan_.layers.end < whole_ &&
       !std::binary_search(begins.begin(), begins.end(), plan_.layers.end)))
    return Err(
        ErrorCode::kUnsupported,
        fmt::format("this model cannot be cut at {}: {}; it can before the layers {}",
                    ToString(plan_.layers), recipe_.begins_because, fmt::join(begins, ", ")));
  return {};
}

// A layer of each kind that the range lacks.
Result<std::vector<std::uint32_t>> Planner::Missing() {
  std::vector<std::uint32_t> missing;
  for (const std::string& kind : recipe_.kinds) {
    std::optional<std::uint32_t> nearest;
    bool present = false;
    for (std::uint32_t layer = 0; layer < whole_; ++layer) {
      SKIPPY_TRY(const double is_one, formulas_.At(kind, layer));
      if (is_one == 0) continue;
      present = present || (layer >= plan_.layers.begin && layer < plan_.layers.end);
      if (!nearest || layer < plan_.layers.end) nearest = layer;
    }
    if (!present && nearest) missing.push_back(*nearest);
  }
  return missing;
}

// Dummies stand behind the layers, where they are not computed; in the last stage, whose end is the
// model's, in front: then the input is written behind them.
Status Planner::Order() {
  SKIPPY_TRY(const std::vector<std::uint32_t> missing, Missing());
  if (plan_.last)
    for (const std::uint32_t layer : missing) plan_.order.push_back({layer, true});
  for (std::uint32_t layer = plan_.layers.begin; layer < plan_.layers.end; ++layer)
    plan_.order.push_back({layer, false});
  if (!plan_.last)
    for (const std::uint32_t layer : missing) plan_.order.push_back({layer, true});
  SKIPPY_RETURN_IF_ERROR(AvoidSpecialCounts());
  for (std::size_t i = 0; i < plan_.order.size(); ++i)
    if (plan_.order[i].dummy)
      plan_.added.push_back(fmt::format("layer {} is a dummy of zeros in the shape of layer {}", i,
                                        plan_.order[i].source));
  return {};
}

// llama.cpp tells sizes of some architectures by the number of layers alone, and computes them
// differently: one more dummy makes it another number.
Status Planner::AvoidSpecialCounts() {
  const auto special = [&](std::size_t layers) {
    return std::find(recipe_.special_counts.begin(), recipe_.special_counts.end(), layers) !=
           recipe_.special_counts.end();
  };
  if (special(whole_) && plan_.order.size() != whole_)
    return Err(ErrorCode::kUnsupported,
               fmt::format("llama.cpp computes {} of {} layers in a way of its own, by that number "
                           "alone: a stage of {} would be computed differently",
                           source_.facts().architecture, whole_, plan_.order.size()));
  while (!special(whole_) && special(plan_.order.size())) {
    if (plan_.last) {
      plan_.order.insert(plan_.order.begin(), {plan_.layers.begin, true});
    } else {
      plan_.order.push_back({plan_.layers.end - 1, true});
    }
  }
  return {};
}

Status Planner::LeadingDense() {
  const auto lead = Scalar(source_, "leading_dense_block_count");
  if (!lead) return {};
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < plan_.order.size(); ++i) {
    if (plan_.order[i].source >= *lead) continue;
    if (i != count)
      return Err(ErrorCode::kUnsupported,
                 fmt::format("in the range {} a dense layer would follow one with experts",
                             ToString(plan_.layers)));
    ++count;
  }
  plan_.set[Key("leading_dense_block_count")] = count;
  return {};
}

Status Planner::WindowKeys() {
  if (recipe_.windowless == Windowless::kAsIs) return {};
  bool any = false;
  for (const StageLayer& layer : plan_.order) {
    SKIPPY_TRY(const double windowed, formulas_.At("windowed", layer.source));
    any = any || windowed != 0;
  }
  if (any) return {};
  const std::string pattern = Key("attention.sliding_window_pattern");
  const std::string window = Key("attention.sliding_window");
  if (recipe_.windowless == Windowless::kDropped) {
    plan_.set.erase(pattern);
    plan_.dropped.insert({pattern, window});
    plan_.added.push_back("no layer has a window: its keys are dropped");
  } else {
    plan_.set[pattern] = std::vector<bool>(plan_.order.size(), true);
    plan_.set[window] = kEndlessWindow;
    plan_.added.push_back("no layer has a window: all are given one as long as the context");
  }
  return {};
}

Status Planner::Keys() {
  plan_.set[Key("block_count")] = static_cast<std::uint32_t>(plan_.order.size());
  if (Scalar(source_, "nextn_predict_layers")) plan_.set[Key("nextn_predict_layers")] = 0U;
  for (const auto& [key, formula] : recipe_.layer_keys) {
    std::vector<bool> values;
    for (const StageLayer& layer : plan_.order) {
      SKIPPY_TRY(const double value, formulas_.At(formula, layer.source));
      values.push_back(value != 0);
    }
    plan_.set[Key(key)] = std::move(values);
  }
  for (const std::string& key : recipe_.dropped) plan_.dropped.insert(Key(key));
  SKIPPY_RETURN_IF_ERROR(LeadingDense());
  SKIPPY_RETURN_IF_ERROR(WindowKeys());
  plan_.dropped.insert(kPartKeys.begin(), kPartKeys.end());
  plan_.tokenizer = TakesTokens();
  if (!plan_.tokenizer) plan_.set["tokenizer.ggml.model"] = std::string("none");
  return {};
}

void Planner::Boundaries() {
  const std::uint32_t front = plan_.dummies_in_front;
  plan_.input.width = embedding_;
  if (front > 0) {
    plan_.input.node = fmt::format("{}-{}", recipe_.capture, front - 1);
  } else if (!recipe_.inject.empty()) {
    plan_.input.node = recipe_.inject;
  }
  plan_.output.width = embedding_;
  if (!plan_.last)
    plan_.output.node = fmt::format("{}-{}", recipe_.capture, front + plan_.layers.size() - 1);
}

Status Planner::LayerTensors() {
  std::map<std::uint32_t, std::vector<std::pair<std::string_view, const SourceTensor*>>> by_layer;
  for (const auto& [name, tensor] : source_.tensors())
    if (const auto split = SplitName(name))
      by_layer[split->layer].emplace_back(split->rest, &tensor);
  for (std::size_t i = 0; i < plan_.order.size(); ++i) {
    const auto found = by_layer.find(plan_.order[i].source);
    if (found == by_layer.end())
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("the model has no tensor of layer {}", plan_.order[i].source));
    for (const auto& [rest, tensor] : found->second) {
      std::string name = fmt::format("blk.{}.{}", i, rest);
      if (plan_.order[i].dummy) {
        AddZeros(std::move(name), tensor->type, tensor->shape);
      } else {
        Add(std::move(name), *tensor);
      }
    }
  }
  return {};
}

// Embedding and head. A stage reads neither the embedding (its input comes as rows; a real first
// one has it) nor, unless it is the last, the head.
Status Planner::EndTensors() {
  const SourceTensor* tokens = source_.Find(kTokens);
  const SourceTensor* head = source_.Find(kHead);
  if (tokens == nullptr)
    return Err(ErrorCode::kInvalidArgument, "the model has no token_embd.weight");
  for (const auto& [name, tensor] : source_.tensors())
    if (!name.starts_with(kLayerPrefix) && name != kTokens && name != kHead) Add(name, tensor);
  const std::string vocabulary = Key("vocab_size");
  if (TakesTokens()) {
    Add(std::string(kTokens), *tokens);
    if (plan_.last && head != nullptr) Add(std::string(kHead), *head);
    if (!plan_.last && head != nullptr && recipe_.needs_output) {
      AddZeros(std::string(kHead), HoleType(embedding_), head->shape);
      plan_.added.push_back("output.weight is zeros: nobody reads it");
    }
    return {};
  }
  if (!plan_.last) {
    plan_.set[vocabulary] = kStubVocabulary;
    AddZeros(std::string(kTokens), GGML_TYPE_F32, {embedding_, kStubVocabulary});
    if (recipe_.needs_output)
      AddZeros(std::string(kHead), GGML_TYPE_F32, {embedding_, kStubVocabulary});
    plan_.added.push_back(
        fmt::format("a vocabulary of {} tokens that nobody reads", kStubVocabulary));
    return {};
  }
  plan_.set[vocabulary] = static_cast<std::uint32_t>(tokens->shape.back());
  if (head == nullptr) {
    Add(std::string(kTokens), *tokens);
  } else if (recipe_.needs_output) {
    AddZeros(std::string(kTokens), HoleType(embedding_), tokens->shape);
    Add(std::string(kHead), *head);
    plan_.added.push_back("token_embd.weight is zeros: nobody reads it");
  } else {
    // Where there is no output.weight llama.cpp takes token_embd for the head: no second matrix.
    Add(std::string(kTokens), *head);
    plan_.added.push_back("output.weight is stored as token_embd.weight");
  }
  return {};
}

Result<SlicePlan> Planner::Plan(LayerRange range) {
  SKIPPY_TRY(whole_, LayersOf(source_));
  plan_.layers = range;
  SKIPPY_RETURN_IF_ERROR(CheckCut());
  const auto embedding = Scalar(source_, "embedding_length");
  if (!embedding)
    return Err(ErrorCode::kInvalidArgument, "the model does not say its embedding_length");
  if (const SourceTensor* tokens = source_.Find(kTokens);
      tokens != nullptr && static_cast<double>(tokens->shape.front()) != *embedding)
    return Err(
        ErrorCode::kInvalidArgument,
        fmt::format("the model says that its embedding_length is {}, its embedding rows have "
                    "{} values: it is damaged",
                    *embedding, tokens->shape.front()));
  embedding_ = static_cast<std::uint32_t>(*embedding);
  plan_.last = range.end == whole_;
  SKIPPY_RETURN_IF_ERROR(Order());
  CountFrontDummies();
  SKIPPY_RETURN_IF_ERROR(Keys());
  Boundaries();
  SKIPPY_RETURN_IF_ERROR(LayerTensors());
  SKIPPY_RETURN_IF_ERROR(EndTensors());
  return std::move(plan_);
}

}  // namespace

Result<std::uint32_t> LayersOf(const Source& source) {
  const auto blocks = Scalar(source, "block_count");
  const double drafts = Scalar(source, "nextn_predict_layers").value_or(0);
  if (!blocks || *blocks < 1 || drafts < 0 || drafts >= *blocks)
    return Err(ErrorCode::kInvalidArgument, "the model does not say how many layers it has");
  std::set<std::uint32_t> there;
  for (const auto& [name, tensor] : source.tensors())
    if (const auto split = SplitName(name); split && split->layer < *blocks)
      there.insert(split->layer);
  if (there.size() != static_cast<std::size_t>(*blocks))
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("the model says that it has {} layers, its tensors are of {}: it is "
                           "damaged or incomplete",
                           *blocks, there.size()));
  return static_cast<std::uint32_t>(*blocks - drafts);
}

std::uint64_t ParametersOf(const Source& source) {
  std::uint64_t count = 0;
  for (const auto& [name, tensor] : source.tensors()) {
    std::uint64_t numbers = 1;
    for (const std::int64_t length : tensor.shape) numbers *= static_cast<std::uint64_t>(length);
    count += numbers;
  }
  return count;
}

Result<std::vector<std::uint32_t>> BeginsOf(const Source& source, const families::Family& family) {
  SKIPPY_TRY(const std::uint32_t layers, LayersOf(source));
  families::Evaluator formulas(family.values, source.facts(), families::KvTypes());
  std::vector<std::uint32_t> begins;
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    double may = 1;
    if (layer > 0 && !family.stages.begins.empty()) {
      SKIPPY_TRY(may, formulas.At(family.stages.begins, layer));
    }
    if (may != 0) begins.push_back(layer);
  }
  return begins;
}

Result<Weights> WeightsOf(const Source& source, FirstStage first) {
  SKIPPY_TRY(const std::uint32_t layers, LayersOf(source));
  Weights weights;
  weights.layers.resize(layers);
  for (const auto& [name, tensor] : source.tensors()) {
    const auto split = SplitName(name);
    if (split && split->layer < layers) weights.layers[split->layer] += tensor.bytes;
  }
  const SourceTensor* head = source.Find(kHead);
  if (head == nullptr) head = source.Find(kTokens);
  weights.last = head == nullptr ? 0 : head->bytes;
  if (const SourceTensor* tokens = source.Find(kTokens);
      tokens != nullptr && first == FirstStage::kReal)
    weights.first = tokens->bytes;
  return weights;
}

Result<SlicePlan> PlanSlice(const Source& source, const families::Family& family, LayerRange range,
                            FirstStage first) {
  if (first == FirstStage::kReal && range.begin == 0 && source.facts().vocabulary == 0)
    return Err(ErrorCode::kInvalidArgument, "the model has no tokenizer for its first stage");
  return Planner(source, family, first).Plan(range);
}

// Vectors (norms, biases, scales) are copied in all layers: some multiply what goes through, and
// zeros there would leave nothing to compare.
Result<SlicePlan> PlanHollow(const Source& source, const families::Family& family,
                             LayerRange range) {
  SKIPPY_TRY(const std::uint32_t layers, LayersOf(source));
  SlicePlan plan;
  plan.layers = range;
  plan.last = range.end == layers;
  plan.tokenizer = true;
  plan.dropped.insert(kPartKeys.begin(), kPartKeys.end());
  const std::string& capture = family.stages.capture;
  if (range.begin > 0) plan.input.node = fmt::format("{}-{}", capture, range.begin - 1);
  if (!plan.last) plan.output.node = fmt::format("{}-{}", capture, range.end - 1);
  const auto width = static_cast<std::uint32_t>(Scalar(source, "embedding_length").value_or(0));
  plan.input.width = width;
  plan.output.width = width;
  for (const auto& [name, tensor] : source.tensors()) {
    const auto split = SplitName(name);
    const bool needed = split ? split->layer >= range.begin && split->layer < range.end
                              : name != kHead || plan.last;
    if (needed || tensor.shape.size() == 1) {
      plan.tensors.push_back({name, &tensor, tensor.type, tensor.shape});
    } else {
      const int type = tensor.type == GGML_TYPE_F32 ? tensor.type : HoleType(tensor.shape.front());
      plan.tensors.push_back({name, nullptr, type, tensor.shape});
    }
  }
  return plan;
}

Result<SlicePlan> PlanVocabulary(const Source& source) {
  const SourceTensor* tokens = source.Find(kTokens);
  if (tokens == nullptr || source.facts().vocabulary == 0)
    return Err(ErrorCode::kInvalidArgument,
               "the model has no tokenizer or no token_embd.weight: nobody could ask it anything");
  SlicePlan plan;
  plan.tokenizer = true;
  plan.dropped.insert(kPartKeys.begin(), kPartKeys.end());
  plan.tensors.push_back({std::string(kTokens), tokens, tokens->type, tokens->shape});
  return plan;
}

}  // namespace skippy::stage
