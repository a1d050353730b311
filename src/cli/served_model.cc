#include "cli/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "cli/families_command.h"
#include "cli/start_lines.h"
#include "families/family.h"
#include "llama/llama_runtime.h"
#include "rpc/address.h"
#include "rpc/client.h"

namespace skippy::cli {
namespace {

rpc::ClientOptions ClientOptionsOf(const StagesSetup& setup) {
  rpc::ClientOptions options;
  options.secret = setup.secret;
  options.tls_ca_file = setup.ca_file;
  options.timeout = std::chrono::seconds(setup.timeout_seconds);
  options.call_timeout = std::min(options.call_timeout, options.timeout);
  options.wire = setup.wire;
  return options;
}

// Of all stages together; state of dummy layers included.
MemoryShape SumOf(const std::vector<pipeline::DescribedStage>& stages) {
  MemoryShape sum;
  for (const pipeline::DescribedStage& stage : stages) {
    const MemoryShape& shape = stage.description.info.shape;
    sum.kv_row_bytes += shape.kv_row_bytes;
    sum.window_row_bytes += shape.window_row_bytes;
    sum.snapshot_bytes += shape.snapshot_bytes;
    sum.window_tokens = std::max(sum.window_tokens, shape.window_tokens);
  }
  return sum;
}

std::string FamilyTitle(const std::string& name) {
  const auto& families = families::EmbeddedFamilies();
  if (!families) return name;
  const auto found = std::find_if(families->begin(), families->end(),
                                  [&](const families::Family& f) { return f.name == name; });
  return found == families->end() ? name : found->title;
}

}  // namespace

Result<ServedModel> ServedModel::Load(const ServeOptions& options) {
  ServedModel served;
  served.file_ = options.model.file;
  served.setup_ = options.stages;
  Result<std::string> vocabulary = stage::FindVocabulary(options.model.file);
  if (!vocabulary && vocabulary.error().code != ErrorCode::kNotFound)
    return tl::unexpected<Error>(std::move(vocabulary).error());
  if (!options.stages.on()) {
    if (vocabulary || stage::IsPackage(options.model.file))
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("'{}' is of a model that was cut: name its stages, --stages "
                             "ADDRESS,ADDRESS,... (`skippy stage serve` starts one)",
                             options.model.file));
    SKIPPY_RETURN_IF_ERROR(served.LoadWhole(options));
    return served;
  }
  if (!vocabulary)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("{}: with --stages, --model names the folder that `skippy stage split` "
                           "wrote, or the folder vocabulary in it",
                           vocabulary.error().message));
  SKIPPY_RETURN_IF_ERROR(served.LoadStages(options, *vocabulary));
  return served;
}

Status ServedModel::LoadWhole(const ServeOptions& options) {
  llama::ModelOptions model;
  model.path = options.model.file;
  model.gpu_layers = options.model.gpu_layers;
  model.rpc_servers = options.model.rpc_servers;
  model.use_mmap = options.model.use_mmap;
  model.adapters = options.adapters;
  SKIPPY_TRY(whole_, llama::Model::Load(model));
  SKIPPY_TRY(runtime_, llama::MakeRuntime(*whole_, options.model.runtime));
  return {};
}

Status ServedModel::LoadStages(const ServeOptions& options, const std::string& folder) {
  SKIPPY_TRY(vocabulary_, stage::LoadVocabulary(folder));
  const stage::ModelRecord& model = vocabulary_->manifest.model;
  pipeline::Coordinator coordinator;
  coordinator.model = model.digest;
  coordinator.model_name = model.name;
  coordinator.tokenizer = vocabulary_->model->tokenizer_digest();
  coordinator.layers = model.layers;
  coordinator.width = vocabulary_->rows->width();
  coordinator.vocab = vocabulary_->rows->tokens();
  coordinator.wire = setup_.wire;
  rpc::ClientOptions client = ClientOptionsOf(setup_);
  client.hangup = hangup_;
  std::vector<std::unique_ptr<pipeline::StageLink>> links;
  for (const std::string& address : setup_.addresses) {
    SKIPPY_TRY(auto found, rpc::Connect(address, client));
    std::move(found.begin(), found.end(), std::back_inserter(links));
  }
  SKIPPY_TRY(auto runtime, pipeline::PipelineRuntime::Make(
                               coordinator, std::move(links), *vocabulary_->rows,
                               {.activation_bytes = options.stages.activations_mib << 20U}));
  pipeline_ = runtime.get();
  runtime_ = std::move(runtime);
  return {};
}

std::optional<api::StagedModel> ServedModel::Staged() const {
  if (!in_stages()) return std::nullopt;
  const stage::ModelRecord& model = vocabulary_->manifest.model;
  api::StagedModel staged{.name = model.name,
                          .layers = model.layers,
                          .parameters = model.parameters,
                          .bytes = model.bytes,
                          .stages = {},
                          .wire = std::string(pipeline::WireName(setup_.wire))};
  for (const pipeline::DescribedStage& stage : pipeline_->stages())
    staged.stages.push_back(ToString(stage.description.package.layers));
  return staged;
}

std::string ServedModel::FamilyWords() const {
  if (!in_stages()) return FamilyLine(file_, runtime_->info());
  return fmt::format("{}, in {} stages", FamilyTitle(vocabulary_->manifest.model.family),
                     pipeline_->stages().size());
}

std::vector<std::string> ServedModel::StageLines() const {
  std::vector<std::string> lines;
  for (const pipeline::DescribedStage& stage : pipeline_->stages())
    lines.push_back(fmt::format("  stage     {} at {}: {}",
                                ToString(stage.description.package.layers), stage.address,
                                MemoryLine(stage.description.info.shape)));
  if (setup_.wire != pipeline::WireFormat::kF32)
    lines.push_back(
        fmt::format("  WARNING   activations travel as {}: answers are not those of "
                    "the whole model",
                    pipeline::WireName(setup_.wire)));
  const bool all_here =
      std::all_of(setup_.addresses.begin(), setup_.addresses.end(), [](const std::string& text) {
        const auto address = rpc::ParseAddress(text);
        return address && rpc::IsLoopback(address->host);
      });
  if (!all_here && setup_.ca_file.empty())
    lines.push_back(
        "  WARNING   nothing is encrypted: whoever sees the traffic has the secret and can guess "
        "the text from the activations: give --stage-ca, or use a private network");
  return lines;
}

std::vector<std::string> ServedModel::StartLines() const {
  const runtime::RuntimeInfo& info = runtime_->info();
  std::vector<std::string> lines{
      fmt::format("  model     {} ({}), vocabulary {}, digest {}", file_, model().architecture(),
                  info.vocab, info.identity.model.ShortHex()),
      fmt::format("  family    {}", FamilyWords()),
      fmt::format("  memory    {}{}",
                  MemoryLine(in_stages() ? SumOf(pipeline_->stages()) : info.shape),
                  in_stages() ? ", on the stages" : "")};
  if (in_stages()) {
    const std::vector<std::string> stages = StageLines();
    lines.insert(lines.end(), stages.begin(), stages.end());
  }
  return lines;
}

}  // namespace skippy::cli
