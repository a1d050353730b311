#include "llama/context_params.h"

#include <build-info.h>
#include <common.h>
#include <fmt/format.h>
#include <ggml-backend.h>
#include <llama-arch.h>
#include <llama-hparams.h>
#include <llama-model.h>
#include <llama.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <thread>

namespace skippy::llama {
namespace {

constexpr std::uint32_t kDefaultContext = 8192;
constexpr std::uint32_t kDefaultChunk = 256;
constexpr std::uint32_t kCellPadding = 256;  // llama.cpp rounds a lane's cells up to this
// Layout of exported rows and snapshots: bump it when CellCache or RecurrentState change theirs.
constexpr std::uint32_t kStateVersion = 1;

std::uint64_t Padded(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

std::optional<ggml_type> CacheType(const std::string& name) {
  for (const ggml_type type :
       {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0,
        GGML_TYPE_Q4_1, GGML_TYPE_IQ4_NL, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1})
    if (name == ggml_type_name(type)) return type;
  return std::nullopt;
}

Status CheckCacheType(const llama_model& model, const char* option, const std::string& name) {
  const auto type = CacheType(name);
  if (!type)
    return Err(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "{}: '{}' is not a cache type (f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0, q5_1)",
            option, name));
  const auto block = static_cast<std::uint32_t>(ggml_blck_size(*type));
  for (std::uint32_t layer = 0; layer < model.hparams.n_layer_all; ++layer) {
    if (model.hparams.n_embd_head_k(layer) % block != 0 ||
        model.hparams.n_embd_head_v(layer) % block != 0)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("{}: type {} needs head sizes divisible by {}, layer {} has {} and {}",
                             option, name, block, layer, model.hparams.n_embd_head_k(layer),
                             model.hparams.n_embd_head_v(layer)));
  }
  return {};
}

// What llama.cpp would assert on, or cannot generate with.
Status CheckModel(const llama_model& model) {
  const llama_hparams& hparams = model.hparams;
  if (llama_model_has_encoder(&model))
    return Err(ErrorCode::kUnsupported, "encoder-decoder models are not supported");
  if (!hparams.causal_attn || llama_model_is_diffusion(&model))
    return Err(
        ErrorCode::kUnsupported,
        "this model does not generate text from left to right (embedding or diffusion model)");
  const bool special = llm_arch_is_recurrent(model.arch) || llm_arch_is_hybrid(model.arch);
  if (!special && hparams.swa_type != LLAMA_SWA_TYPE_NONE && !hparams.is_swa_any())
    return Err(ErrorCode::kInvalidArgument,
               "the model names a sliding window but no layer that uses it");
  if (hparams.swa_type != LLAMA_SWA_TYPE_NONE && hparams.n_swa == 0)
    return Err(ErrorCode::kInvalidArgument,
               "the model has sliding-window layers but a window of 0");
  // The vector kernels read and write whole registers past a narrower head.
  const bool wkv7 = model.arch == LLM_ARCH_RWKV7 || model.arch == LLM_ARCH_ARWKV7;
  if (wkv7 && (hparams.wkv_head_size == 0 || hparams.wkv_head_size % 64 != 0))
    return Err(
        ErrorCode::kUnsupported,
        fmt::format("llama.cpp computes RWKV-7 heads in steps of 64, this model's are {} wide",
                    hparams.wkv_head_size));
  // The rotation of indexer keys exists for multiples of 64 only.
  const bool indexer = model.arch == LLM_ARCH_DEEPSEEK32 || model.arch == LLM_ARCH_GLM_DSA ||
                       model.arch == LLM_ARCH_DEEPSEEK4 || model.arch == LLM_ARCH_DOTS3NOTE;
  if (indexer && (hparams.indexer_head_size == 0 || hparams.indexer_head_size % 64 != 0))
    return Err(
        ErrorCode::kUnsupported,
        fmt::format("llama.cpp needs indexer heads of a multiple of 64, this model's are {} wide",
                    hparams.indexer_head_size));
  if (model.arch == LLM_ARCH_GEMMA4_ASSISTANT || model.arch == LLM_ARCH_EAGLE3 ||
      model.arch == LLM_ARCH_DFLASH)
    return Err(ErrorCode::kUnsupported, "draft models cannot be served on their own");
  return {};
}

std::uint64_t ReadNumber(const char* path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : 0;  // "max" is not a number: no limit
}

// Most tokens of a batch. A multiple of the lanes: llama.cpp reserves its graph for equal shares of
// all sequences, and asserts on some families (kimi-linear) when the shares do not come out even.
std::uint32_t BatchTokens(const runtime::RuntimeOptions& options) {
  return static_cast<std::uint32_t>(Padded(options.chunk, options.lanes));
}

// Cells of one lane in a sliding-window layer (llama_kv_cache_iswa's own rule).
std::uint64_t WindowCells(const llama_hparams& hparams, const runtime::RuntimeOptions& options,
                          std::uint64_t cells) {
  if (options.swa_full) return cells;
  return Padded(std::min<std::uint64_t>(cells, std::uint64_t{hparams.n_swa} + BatchTokens(options)),
                kCellPadding);
}

std::uint64_t ComputeBytes(const llama_hparams& hparams, const runtime::RuntimeOptions& options,
                           std::uint64_t cells, std::uint64_t vocab) {
  std::uint64_t widest = hparams.n_embd;
  for (std::uint32_t layer = 0; layer < hparams.n_layer_all; ++layer)
    widest = std::max<std::uint64_t>(widest, hparams.n_ff(layer));
  const std::uint64_t mask = std::uint64_t{options.chunk} * cells * 6;  // F32 and F16
  std::uint64_t scores = 0;
  if (!options.flash_attention)
    scores += std::uint64_t{options.chunk} * cells * hparams.n_head() * 4;
  if (hparams.indexer_head_size > 0) scores += std::uint64_t{options.chunk} * cells * 4 * 2;
  return std::uint64_t{options.chunk} * widest * 4 * 6 + mask + scores +
         std::uint64_t{options.lanes} * vocab * 4 * 2 + (std::uint64_t{16} << 20);
}

std::string BuildText(const runtime::RuntimeOptions& options) {
  std::string text =
      fmt::format("llama.cpp {} {} {}", llama_commit(), llama_compiler(), llama_build_target());
  text += fmt::format(" | {} | repack=1", llama_print_system_info());
  if (options.threads_batch != options.threads)
    text += fmt::format(" | threads_batch={}", options.threads_batch);
  // Environment switches of ggml and llama.cpp that change results.
  for (const char* name : {"GGML_NO_IQ_PANEL", "LLAMA_ATTN_ROT_DISABLE", "GGML_CUDA_FORCE_MMQ",
                           "GGML_CUDA_FORCE_CUBLAS", "GGML_VK_DISABLE_F16", "GGML_DISABLE_FUSION"})
    if (const char* value = std::getenv(name)) text += fmt::format(" | {}={}", name, value);
  return text;
}

std::string DeviceText(const llama_model& model) {
  if (model.devices.empty()) return "CPU";
  std::string text = fmt::format("layers={}", model.n_gpu_layers());
  for (const auto& device : model.devices) {
    const std::string backend = ggml_backend_reg_name(ggml_backend_dev_backend_reg(device.dev));
    text += ";" + backend;
    // Of a device of another machine it tells the address, which says nothing about its numbers.
    if (backend != "RPC") text += fmt::format(":{}", ggml_backend_dev_description(device.dev));
  }
  return text;
}

}  // namespace

std::uint32_t LearnedPositions(const Model& model) {
  const ggml_tensor* table = model.raw()->pos_embd;
  return table == nullptr ? std::numeric_limits<std::uint32_t>::max()
                          : static_cast<std::uint32_t>(table->ne[1]);
}

std::uint64_t HostAvailableBytes() {
  std::uint64_t available = 0;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key; meminfo >> key;) {
    if (key == "MemAvailable:") {
      meminfo >> available;
      available *= 1024;
      break;
    }
    meminfo.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  // Control groups, version 2 and then version 1.
  const std::pair<const char*, const char*> limits[] = {
      {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes",
       "/sys/fs/cgroup/memory/memory.usage_in_bytes"}};
  for (const auto& [limit_path, used_path] : limits) {
    const std::uint64_t limit = ReadNumber(limit_path);
    if (limit == 0) continue;
    const std::uint64_t used = ReadNumber(used_path);
    const std::uint64_t rest = limit > used ? limit - used : 1;
    available = available == 0 ? rest : std::min(available, rest);
  }
  return available;
}

std::uint32_t PositionRows(const Model& model) { return model.raw()->hparams.n_pos_per_embd(); }

Result<runtime::RuntimeOptions> ResolveOptions(const Model& model,
                                               const runtime::RuntimeOptions& options) {
  const llama_model& raw = *model.raw();
  if (model.vocabulary_only())
    return Err(ErrorCode::kInvalidArgument,
               "this is a model's vocabulary, which has no layers: name its stages");
  SKIPPY_RETURN_IF_ERROR(CheckModel(raw));
  runtime::RuntimeOptions resolved = options;
  if (resolved.lanes == 0 || resolved.lanes > runtime::kMaxLanes)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("lanes: {} is not in 1..{}", resolved.lanes, runtime::kMaxLanes));
  if (resolved.context == 0)
    resolved.context = std::min(std::clamp(raw.hparams.n_ctx_train, kCellPadding, kDefaultContext),
                                LearnedPositions(model));
  if (const std::uint32_t limit = LearnedPositions(model); resolved.context > limit)
    return Err(
        ErrorCode::kInvalidArgument,
        fmt::format("context: {} positions, but this model has learned embeddings for {} only",
                    resolved.context, limit));
  // Positions are 32-bit signed in llama.cpp, and so is the number of all cells.
  if (Padded(resolved.context, kCellPadding) * resolved.lanes > std::uint64_t{1} << 30)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("context: {} positions for {} lanes is more than {} cells",
                           resolved.context, resolved.lanes, std::uint64_t{1} << 30));
  if (resolved.chunk == 0) resolved.chunk = kDefaultChunk;
  resolved.chunk = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(resolved.chunk, Padded(resolved.context, kCellPadding)));
  if (resolved.threads == 0)
    resolved.threads = static_cast<std::uint32_t>(std::max(1, common_cpu_get_num_physical_cores()));
  if (resolved.threads_batch == 0) resolved.threads_batch = resolved.threads;
  const std::uint32_t most_threads = std::max(512U, 4 * std::thread::hardware_concurrency());
  if (resolved.threads > most_threads || resolved.threads_batch > most_threads)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("threads: {} is more than {}",
                           std::max(resolved.threads, resolved.threads_batch), most_threads));
  if (const auto type = CacheType(resolved.type_v);
      type && !resolved.flash_attention && ggml_is_quantized(*type))
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("type_v: {} needs flash attention", resolved.type_v));
  SKIPPY_RETURN_IF_ERROR(CheckCacheType(raw, "type_k", resolved.type_k));
  SKIPPY_RETURN_IF_ERROR(CheckCacheType(raw, "type_v", resolved.type_v));
  return resolved;
}

llama_context_params ContextParams(const runtime::RuntimeOptions& resolved) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx =
      static_cast<std::uint32_t>(Padded(resolved.context, kCellPadding)) * resolved.lanes;
  params.n_batch = BatchTokens(resolved);
  params.n_ubatch = params.n_batch;
  params.n_seq_max = resolved.lanes;
  params.n_outputs_max = resolved.lanes;  // one row of logits a lane keeps the head's buffer small
  params.n_threads = static_cast<std::int32_t>(resolved.threads);
  params.n_threads_batch = static_cast<std::int32_t>(resolved.threads_batch);
  params.flash_attn_type =
      resolved.flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.type_k = *CacheType(resolved.type_k);
  params.type_v = *CacheType(resolved.type_v);
  params.swa_full = resolved.swa_full;
  params.kv_unified = false;
  params.no_perf = true;
  return params;
}

std::uint64_t EstimateContextBytes(const Model& model, const runtime::RuntimeOptions& resolved) {
  const llama_model& raw = *model.raw();
  const llama_hparams& hparams = raw.hparams;
  const ggml_type type_k = *CacheType(resolved.type_k);
  const ggml_type type_v = *CacheType(resolved.type_v);
  const std::uint64_t cells = Padded(resolved.context, kCellPadding);
  const bool recurrent_only = llm_arch_is_recurrent(raw.arch);
  const bool both = raw.arch == LLM_ARCH_FALCON_H1;  // attention and state in every layer
  std::uint64_t bytes = 0;
  for (std::uint32_t layer = 0; layer < hparams.n_layer(); ++layer) {
    const bool recurrent = recurrent_only || both || hparams.is_recr(layer);
    if (recurrent)
      bytes +=
          std::uint64_t{resolved.lanes} * (hparams.n_embd_r() + hparams.n_embd_s()) * sizeof(float);
    if (recurrent_only || (recurrent && !both) || !hparams.has_kv(layer)) continue;
    std::uint64_t row = ggml_row_size(type_k, hparams.n_embd_k_gqa(layer));
    if (!hparams.is_mla()) row += ggml_row_size(type_v, hparams.n_embd_v_gqa(layer));
    if (hparams.indexer_head_size > 0) row += ggml_row_size(type_k, hparams.indexer_head_size);
    bytes += row * (hparams.is_swa(layer) ? WindowCells(hparams, resolved, cells) : cells) *
             resolved.lanes;
  }
  return bytes + ComputeBytes(hparams, resolved, cells, raw.vocab.n_tokens());
}

std::uint64_t AvailableBytes(const Model& model) {
  const llama_model& raw = *model.raw();
  std::uint64_t device = 0;
  for (const auto& entry : raw.devices) {
    std::size_t free = 0;
    std::size_t total = 0;
    ggml_backend_dev_memory(entry.dev, &free, &total);
    device += free;
  }
  return device > 0 ? device + HostAvailableBytes() : HostAvailableBytes();
}

Identity RuntimeIdentity(const Model& model, const runtime::RuntimeOptions& resolved,
                         std::uint32_t cells) {
  Identity identity;
  identity.model = model.content_digest();
  identity.tokenizer = model.tokenizer_digest();
  identity.architecture = model.architecture();
  identity.runtime_build = BuildText(resolved);
  identity.device = DeviceText(*model.raw());
  identity.kv_type_k = resolved.type_k;
  identity.kv_type_v = resolved.type_v;
  identity.flash_attention = resolved.flash_attention;
  identity.swa_full = resolved.swa_full;
  identity.streams = resolved.lanes;
  identity.context = cells;
  identity.chunk = resolved.chunk;
  identity.threads = resolved.threads;
  identity.layer_begin = 0;
  identity.layer_end = model.raw()->hparams.n_layer();
  identity.topology = "whole";
  identity.state_version = kStateVersion;
  return identity;
}

}  // namespace skippy::llama
