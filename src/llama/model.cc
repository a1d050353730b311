#include "llama/model.h"

#include <fmt/format.h>
#include <llama-model.h>
#include <llama.h>

#include <charconv>
#include <cmath>
#include <future>

#include "llama/gguf_check.h"
#include "llama/log_hook.h"
#include "llama/rpc_devices.h"

namespace skippy::llama {
namespace {

struct ModelFree {
  void operator()(llama_model* model) const { llama_model_free(model); }
};
using ModelPtr = std::unique_ptr<llama_model, ModelFree>;

Status CheckKind(const ModelOptions& options, const GgufFacts& facts) {
  if (facts.architecture.empty())
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}' names no general.architecture: not a model", options.path));
  if (facts.type == "adapter")
    return Err(
        ErrorCode::kInvalidArgument,
        fmt::format("'{}' is a LoRA adapter, not a model: give it as an adapter", options.path));
  if (facts.tensors == 0)
    return Err(ErrorCode::kInvalidArgument, fmt::format("'{}' has no tensors", options.path));
  return {};
}

Result<ModelPtr> LoadWeights(const ModelOptions& options) {
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = options.gpu_layers;
  params.vocab_only = options.vocabulary_only;
  params.load_mode = options.use_mmap ? LLAMA_LOAD_MODE_AUTO : LLAMA_LOAD_MODE_NONE;
  ClearErrors();
  ModelPtr model(llama_model_load_from_file(options.path.c_str(), params));
  if (!model)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("llama.cpp cannot load '{}': {}", options.path, ErrorLines()));
  return model;
}

// llama.cpp reads no sizes of a vocabulary alone; the API tells some of them.
void ReadSizes(llama_model& model, const std::string& architecture) {
  const auto read = [&](const char* key, std::uint32_t& into) {
    const auto found = model.gguf_kv.find(fmt::format("{}.{}", architecture, key));
    if (found == model.gguf_kv.end()) return;
    const std::string& text = found->second;
    std::from_chars(text.data(), text.data() + text.size(), into);
  };
  read("context_length", model.hparams.n_ctx_train);
  read("embedding_length", model.hparams.n_embd);
}

// What llama.cpp asserts on when it tokenises for the first time.
Status CheckVocabulary(const ModelOptions& options, const llama_vocab* vocab) {
  if (llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_NONE) {
    if (!options.need_tokenizer) return {};
    return Err(ErrorCode::kUnsupported, fmt::format("'{}' has no tokenizer", options.path));
  }
  const bool bos_missing =
      llama_vocab_get_add_bos(vocab) && llama_vocab_bos(vocab) == LLAMA_TOKEN_NULL;
  const bool eos_missing =
      llama_vocab_get_add_eos(vocab) && llama_vocab_eos(vocab) == LLAMA_TOKEN_NULL;
  if (bos_missing || eos_missing)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}' asks for a token at the {} of every text but does not name it",
                           options.path, bos_missing ? "beginning" : "end"));
  return {};
}

Result<Model::Adapter> LoadAdapter(llama_model* model, const std::string& path, float scale) {
  if (!std::isfinite(scale))
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("adapter '{}': scale is not a number", path));
  SKIPPY_TRY(const GgufFacts facts, CheckGguf(path));
  if (facts.type != "adapter")
    return Err(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a LoRA adapter", path));
  SKIPPY_TRY(const Digest content, DigestFiles(facts.files));
  ClearErrors();
  llama_adapter_lora* raw = llama_adapter_lora_init(model, path.c_str());  // freed with the model
  if (raw == nullptr)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("llama.cpp cannot load adapter '{}': {}", path, ErrorLines()));
  // An activated LoRA changes weights in the middle of a prompt, which no prefix key of ours
  // expresses.
  if (llama_adapter_get_alora_n_invocation_tokens(raw) > 0)
    return Err(
        ErrorCode::kUnsupported,
        fmt::format("adapter '{}' is an activated LoRA (aLoRA), which is not supported", path));
  return Model::Adapter{path, scale, content, raw};
}

}  // namespace

struct Model::State {
  ModelPtr model;
  std::string architecture;
  bool vocabulary_only = false;
  Digest content;
  Digest tokenizer;
  std::vector<Adapter> adapters;
};

Result<std::unique_ptr<Model>> Model::Load(const ModelOptions& options) try {
  InitialiseBackend();
  SKIPPY_TRY(const GgufFacts facts, CheckGguf(options.path));
  SKIPPY_RETURN_IF_ERROR(CheckKind(options, facts));
  SKIPPY_RETURN_IF_ERROR(AddRpcServers(options.rpc_servers));
  if (options.vocabulary_only && !options.adapters.empty())
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("adapter '{}': a vocabulary has no layers that it could change",
                           options.adapters.front().first));
  // Hashing reads the file once, which also warms the page cache for the load that runs beside it.
  auto digest = std::async(std::launch::async, [&facts] { return DigestFiles(facts.files); });
  auto loaded = LoadWeights(options);
  auto content = digest.get();
  if (!loaded) return tl::unexpected<Error>(std::move(loaded).error());
  if (!content) return tl::unexpected<Error>(std::move(content).error());
  SKIPPY_RETURN_IF_ERROR(CheckVocabulary(options, llama_model_get_vocab(loaded->get())));
  auto state = std::make_unique<State>();
  state->model = std::move(*loaded);
  state->architecture = facts.architecture;
  state->vocabulary_only = options.vocabulary_only;
  if (options.vocabulary_only) ReadSizes(*state->model, facts.architecture);
  state->content = *content;
  state->tokenizer = facts.tokenizer;
  for (const auto& [path, scale] : options.adapters) {
    SKIPPY_TRY(Adapter adapter, LoadAdapter(state->model.get(), path, scale));
    state->adapters.push_back(std::move(adapter));
  }
  return std::unique_ptr<Model>(new Model(std::move(state)));
} catch (const std::exception& error) {
  return Err(ErrorCode::kInternal, fmt::format("loading '{}': {}", options.path, error.what()));
}

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::~Model() = default;

llama_model* Model::raw() const { return state_->model.get(); }
const llama_vocab* Model::vocab() const { return llama_model_get_vocab(state_->model.get()); }
const std::string& Model::architecture() const { return state_->architecture; }
const Digest& Model::content_digest() const { return state_->content; }
const Digest& Model::tokenizer_digest() const { return state_->tokenizer; }
bool Model::vocabulary_only() const { return state_->vocabulary_only; }
const std::vector<Model::Adapter>& Model::adapters() const { return state_->adapters; }

}  // namespace skippy::llama
