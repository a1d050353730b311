#include "cli/model_flags.h"

#include <fmt/format.h>

#include <algorithm>

namespace skippy::cli {
namespace {

constexpr std::int64_t kMostThreads = 1024;
constexpr std::int64_t kMostChunk = 65536;

Result<std::int32_t> GpuLayers(const std::string& text) {
  if (text == "auto" || text == "all" || text == "-1") return -1;
  const bool digits =
      !text.empty() && text.size() < 7 && text.find_first_not_of("0123456789") == std::string::npos;
  if (digits) return std::stoi(text);
  return Err(
      ErrorCode::kInvalidArgument,
      fmt::format("--n-gpu-layers: '{}' is not a number from 0 to 999999, auto or all", text));
}

// --batch-size bounds --ubatch-size from above, as in llama-server; on its own it also makes chunks
// smaller than llama-server's 512.
std::uint32_t Chunk(std::int64_t batch, std::int64_t ubatch) {
  constexpr std::int64_t kServersUbatch = 512;
  const bool bounds = batch > 0 && batch < (ubatch > 0 ? ubatch : kServersUbatch + 1);
  return static_cast<std::uint32_t>(bounds ? batch : ubatch);
}

}  // namespace

const std::map<std::string, std::string>& ModelSpellings() {
  static const std::map<std::string, std::string> spellings{
      {"-m", "--model"},          {"-ngl", "--n-gpu-layers"}, {"-c", "--ctx-size"},
      {"-np", "--parallel"},      {"-ub", "--ubatch-size"},   {"-b", "--batch-size"},
      {"-t", "--threads"},        {"-tb", "--threads-batch"}, {"-fa", "--flash-attn"},
      {"-ctk", "--cache-type-k"}, {"-ctv", "--cache-type-v"}, {"-h", "--help"},
  };
  return spellings;
}

void ModelFlags::AddTo(CLI::App& app, ModelSetup& setup, const char* purpose) {
  purpose_ = purpose;
  app.add_option("--model", setup.file, purpose)->group("Model");
  runtime_.push_back(app.add_option("--rpc", setup.rpc_servers,
                                    "addresses of llama.cpp's rpc-server, host:port,...: their "
                                    "devices take layers too; ends the program when one goes away")
                         ->delimiter(',')
                         ->group("Model"));
  AddRuntimeTo(app, setup);
}

void ModelFlags::AddRuntimeTo(CLI::App& app, ModelSetup& setup) {
  const auto add = [this](const char* group, CLI::Option* option) {
    option->group(group);
    runtime_.push_back(option);
    return option;
  };
  const auto model = [&](CLI::Option* option) { return add("Model", option); };
  model(app.add_option("--n-gpu-layers,--gpu-layers", gpu_layers_,
                       "layers on the GPU: a number, auto or all"));
  model(app.add_flag("--no-mmap", no_mmap_, "read the file instead of mapping it"));
  model(app.add_flag("--mmap", mmap_, "map the file (the default)"));

  const auto settings = [&](CLI::Option* option) { return add("Runtime", option); };
  runtime::RuntimeOptions& runtime = setup.runtime;
  settings(app.add_option("--ctx-size", runtime.context,
                          "context of EACH LANE in tokens (llama-server's -c is the sum of all "
                          "slots); 0: the model's training length, at most 8192"))
      ->check(CLI::Range(0L, 16777216L));
  settings(app.add_option("--lanes,--parallel", runtime.lanes,
                          "sequences that are worked on at once, each in a lane of its own"))
      ->check(CLI::Range(1U, runtime::kMaxLanes));
  settings(app.add_option("--ubatch-size,--chunk", ubatch_,
                          "most tokens of one prefill call; prefixes are stored on its grid"))
      ->check(CLI::Range(std::int64_t{1}, kMostChunk));
  settings(
      app.add_option("--batch-size", batch_, "upper bound of --ubatch-size, as in llama-server"))
      ->check(CLI::Range(std::int64_t{1}, kMostChunk));
  settings(app.add_option("--threads", threads_, "compute threads; -1 or 0: number of cores"))
      ->check(CLI::Range(std::int64_t{-1}, kMostThreads));
  settings(app.add_option("--threads-batch", threads_batch_,
                          "compute threads of prefill; -1 or 0: as --threads"))
      ->check(CLI::Range(std::int64_t{-1}, kMostThreads));
  settings(app.add_option("--flash-attn", flash_attention_, "on, off or auto"))
      ->check(CLI::IsMember({"on", "off", "auto", "1", "0"}));
  const auto types =
      CLI::IsMember({"f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"});
  settings(app.add_option("--cache-type-k", runtime.type_k, "type of cached keys"))->check(types);
  settings(app.add_option("--cache-type-v", runtime.type_v, "type of cached values"))->check(types);
  settings(app.add_flag("--swa-full", runtime.swa_full,
                        "keep whole sliding-window caches: rewind to any token"));
}

Status ModelFlags::Resolve(ModelSetup& setup) const {
  if (setup.file.empty())
    return Err(ErrorCode::kInvalidArgument, fmt::format("--model is required: {}", purpose_));
  return ResolveRuntime(setup);
}

Status ModelFlags::ResolveRuntime(ModelSetup& setup) const {
  SKIPPY_TRY(setup.gpu_layers, GpuLayers(gpu_layers_));
  setup.use_mmap = !no_mmap_;
  runtime::RuntimeOptions& runtime = setup.runtime;
  runtime.chunk = Chunk(batch_, ubatch_);
  runtime.threads = static_cast<std::uint32_t>(std::max<std::int64_t>(0, threads_));
  runtime.threads_batch = static_cast<std::uint32_t>(std::max<std::int64_t>(0, threads_batch_));
  runtime.flash_attention = flash_attention_ != "off" && flash_attention_ != "0";
  return {};
}

std::vector<std::string> ModelFlags::GivenRuntime() const {
  std::vector<std::string> given;
  for (const CLI::Option* option : runtime_)
    if (option->count() > 0) given.push_back("--" + option->get_lnames().front());
  return given;
}

}  // namespace skippy::cli
