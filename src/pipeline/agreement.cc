#include "pipeline/agreement.h"

#include <fmt/format.h>

#include <algorithm>

namespace skippy::pipeline {
namespace {

std::string OnOff(bool value) { return value ? "on" : "off"; }

Status CheckModel(const Coordinator& coordinator, const DescribedStage& stage) {
  const StagePackage& package = stage.description.package;
  if (package.model != coordinator.model)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("{} is of {} ({}), the vocabulary of {} ({}): cut both from one model",
                           NameOf(stage), package.model_name, package.model.ShortHex(),
                           coordinator.model_name, coordinator.model.ShortHex()));
  if (package.model_layers != coordinator.layers || package.layers.begin >= package.layers.end ||
      package.layers.end > coordinator.layers)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("{} says it is of {} layers, the vocabulary of {}: cut the model again",
                           NameOf(stage), package.model_layers, coordinator.layers));
  return {};
}

Status CheckRow(const Coordinator& coordinator, const std::vector<DescribedStage>& stages) {
  std::uint32_t at = 0;
  for (const DescribedStage& stage : stages) {
    const LayerRange layers = stage.description.package.layers;
    if (layers.begin > at)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("no stage has the layers {}: start one and name it in --stages",
                             ToString({at, layers.begin})));
    if (layers.begin < at)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("{} overlaps the one before it, which ends at {}: leave one of them "
                             "out of --stages (ADDRESS/{} names one stage of an address)",
                             NameOf(stage), at, ToString(layers)));
    at = layers.end;
  }
  if (at < coordinator.layers)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("no stage has the layers {}: start one and name it in --stages",
                           ToString({at, coordinator.layers})));
  return {};
}

Status CheckWidths(const Coordinator& coordinator, const std::vector<DescribedStage>& stages) {
  std::uint32_t width = coordinator.width;
  for (const DescribedStage& stage : stages) {
    if (stage.description.input_width != width)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("{} takes rows of {} values and is sent {}: cut the model again",
                             NameOf(stage), stage.description.input_width, width));
    width = stage.description.output_width;
    const bool last = &stage == &stages.back();
    if (last != (width == 0))
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("{} gives {}: cut the model again", NameOf(stage),
                             last ? "rows where logits should leave" : "logits in the middle"));
  }
  const std::uint32_t vocab = stages.back().description.info.vocab;
  if (vocab != coordinator.vocab)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("{} gives logits of {} tokens, the vocabulary has {}: cut both from one "
                           "model",
                           NameOf(stages.back()), vocab, coordinator.vocab));
  return {};
}

// A setting that all stages must have alike. `flag`: how to set it.
struct Setting {
  const char* what;
  const char* flag;
  std::string (*value)(const runtime::RuntimeInfo& info);
};
using Info = runtime::RuntimeInfo;
constexpr Setting kSettings[] = {
    {"llama.cpp build", "the same binary everywhere",
     [](const Info& info) { return info.identity.runtime_build; }},
    {"positions a lane", "-c", [](const Info& info) { return std::to_string(info.context); }},
    {"cells a lane", "-c", [](const Info& info) { return std::to_string(info.identity.context); }},
    {"lanes", "-np", [](const Info& info) { return std::to_string(info.lanes); }},
    {"tokens a chunk", "-ub", [](const Info& info) { return std::to_string(info.chunk); }},
    {"type of cached keys", "-ctk", [](const Info& info) { return info.identity.kv_type_k; }},
    {"type of cached values", "-ctv", [](const Info& info) { return info.identity.kv_type_v; }},
    {"flash attention", "-fa",
     [](const Info& info) { return OnOff(info.identity.flash_attention); }},
    {"full-size windows", "--swa-full",
     [](const Info& info) { return OnOff(info.identity.swa_full); }},
    {"rope", "the same rope flags", [](const Info& info) { return info.identity.rope; }},
    {"streams", "-np", [](const Info& info) { return std::to_string(info.identity.streams); }},
    {"version of kept state", "the same binary everywhere",
     [](const Info& info) { return std::to_string(info.identity.state_version); }},
};

Status CheckSettings(const std::vector<DescribedStage>& stages) {
  const DescribedStage& first = stages.front();
  for (const DescribedStage& stage : stages) {
    for (const Setting& setting : kSettings) {
      const std::string is = setting.value(stage.description.info);
      const std::string should = setting.value(first.description.info);
      if (is != should)
        return Err(
            ErrorCode::kInvalidArgument,
            fmt::format("{}: {} is {}, and {} at {}: start all stages alike ({})", NameOf(stage),
                        setting.what, is, should, NameOf(first), setting.flag));
    }
  }
  // Windows are a part of the model: stages without one say 0.
  std::uint32_t window = 0;
  for (const DescribedStage& stage : stages) {
    const MemoryShape& shape = stage.description.info.shape;
    if (!shape.HasWindow()) continue;
    if (window != 0 && shape.window_tokens != window)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("{} has a window of {} tokens, another stage one of {}: cut the model "
                             "again",
                             NameOf(stage), shape.window_tokens, window));
    window = shape.window_tokens;
  }
  return {};
}

bool Alike(std::span<const DescribedStage> stages) {
  const Identity& first = stages.front().description.info.identity;
  return std::all_of(stages.begin(), stages.end(), [&](const DescribedStage& stage) {
    const Identity& identity = stage.description.info.identity;
    return identity.device == first.device && identity.threads == first.threads;
  });
}

MemoryShape ShapeOf(const Coordinator& coordinator, std::span<const DescribedStage> stages) {
  MemoryShape shape;
  for (const DescribedStage& stage : stages) {
    const MemoryShape& own = stage.description.info.shape;
    if (own.HasKv()) shape.kv_row_bytes = kKeyBytes;
    if (own.HasWindow()) shape.window_row_bytes = kKeyBytes;
    if (own.HasSnapshot()) shape.snapshot_bytes = kKeyBytes;
    shape.window_tokens = std::max(shape.window_tokens, own.window_tokens);
  }
  shape.logits_bytes = std::uint64_t{coordinator.vocab} * sizeof(float);
  return shape;
}

}  // namespace

std::string NameOf(const DescribedStage& stage) {
  return fmt::format("stage {} at {}", ToString(stage.description.package.layers), stage.address);
}

bool SameStage(const StageDescription& a, const StageDescription& b) {
  return a.package == b.package && a.input_width == b.input_width &&
         a.output_width == b.output_width && a.info.shape == b.info.shape &&
         a.info.policy == b.info.policy && a.info.lanes == b.info.lanes &&
         a.info.context == b.info.context && a.info.chunk == b.info.chunk &&
         a.info.vocab == b.info.vocab && a.info.identity == b.info.identity;
}

Status Agree(const Coordinator& coordinator, std::vector<DescribedStage>& stages) {
  if (stages.empty())
    return Err(ErrorCode::kInvalidArgument, "no stages are named: --stages ADDRESS,ADDRESS,...");
  for (const DescribedStage& stage : stages) SKIPPY_RETURN_IF_ERROR(CheckModel(coordinator, stage));
  std::stable_sort(stages.begin(), stages.end(), [](const auto& a, const auto& b) {
    return a.description.package.layers.begin < b.description.package.layers.begin;
  });
  SKIPPY_RETURN_IF_ERROR(CheckRow(coordinator, stages));
  SKIPPY_RETURN_IF_ERROR(CheckWidths(coordinator, stages));
  return CheckSettings(stages);
}

runtime::RuntimeInfo Together(const Coordinator& coordinator,
                              std::span<const DescribedStage> stages) {
  const DescribedStage& first = stages.front();
  runtime::RuntimeInfo info = first.description.info;
  info.shape = ShapeOf(coordinator, stages);
  info.vocab = coordinator.vocab;
  info.policy = info.shape.HasSnapshot() ? PayloadPolicy::kKvRecurrent : PayloadPolicy::kResidentKv;
  info.policy_reason.clear();
  for (const DescribedStage& stage : stages) {
    const runtime::RuntimeInfo& own = stage.description.info;
    if (own.policy != PayloadPolicy::kOff) continue;
    info.policy = PayloadPolicy::kOff;
    info.policy_reason = fmt::format("{}: {}", NameOf(stage), own.policy_reason);
    break;
  }
  info.identity.model = coordinator.model;
  info.identity.tokenizer = coordinator.tokenizer;
  info.identity.architecture = first.description.package.architecture;
  info.identity.layer_begin = 0;
  info.identity.layer_end = coordinator.layers;
  info.identity.topology = "stages";
  if (!Alike(stages)) {
    info.identity.device = "mixed";
    info.identity.threads = 0;
    for (const DescribedStage& stage : stages) {
      const Identity& own = stage.description.info.identity;
      info.identity.topology += fmt::format(" {}:{}x{}", ToString(stage.description.package.layers),
                                            own.device, own.threads);
    }
  }
  if (coordinator.wire != WireFormat::kF32)
    info.identity.topology += fmt::format(
        " cut at {} wire {}",
        [&] {
          std::string cuts;
          for (const DescribedStage& stage : stages)
            cuts += (cuts.empty() ? "" : ",") + ToString(stage.description.package.layers);
          return cuts;
        }(),
        WireName(coordinator.wire));
  return info;
}

}  // namespace skippy::pipeline
