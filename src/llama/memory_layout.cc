#include "llama/memory_layout.h"

#include <fmt/format.h>
#include <llama-hparams.h>
#include <llama-kv-cache-dsa-iswa.h>
#include <llama-kv-cache-dsa.h>
#include <llama-kv-cache-dsv4.h>
#include <llama-kv-cache-iswa.h>
#include <llama-kv-cache-msa.h>
#include <llama-kv-cache.h>
#include <llama-memory-hybrid-idx.h>
#include <llama-memory-hybrid-iswa.h>
#include <llama-memory-hybrid.h>
#include <llama-memory-recurrent.h>
#include <llama-model.h>

#include <cstdint>
#include <limits>
#include <utility>

#include "families/policy.h"

namespace skippy::llama {
namespace {

class Inspector {
 public:
  // `endless`: a window of so many positions counts as none.
  Inspector(const llama_model& model, std::uint64_t endless) : model_(model), endless_(endless) {}

  void Kv(llama_kv_cache* cache, bool keys_only = false) {
    layout_.kv.emplace_back(cache, model_.hparams.n_pos_per_embd(), keys_only);
  }
  void Window(llama_kv_cache* cache) {
    if (WindowTokens() >= endless_) return Kv(cache);
    layout_.window.emplace(cache, model_.hparams.n_pos_per_embd(), false);
  }
  void SlidingWindow(const llama_kv_cache_iswa& memory) {
    Kv(memory.get_base());
    Window(memory.get_swa());
  }
  void Recurrent(llama_memory_recurrent* memory) { layout_.recurrent.emplace(memory); }
  void Off(std::string reason) { layout_.reason = std::move(reason); }

  MemoryLayout Finish();

 private:
  // Rows before a boundary that the first token after it can still see.
  std::uint32_t WindowTokens() const {
    const llama_hparams& hparams = model_.hparams;
    if (hparams.n_swa == 0) return 0;
    return hparams.swa_type == LLAMA_SWA_TYPE_SYMMETRIC ? hparams.n_swa / 2 : hparams.n_swa - 1;
  }

  const llama_model& model_;
  const std::uint64_t endless_;
  MemoryLayout layout_;
};

MemoryLayout Inspector::Finish() {
  MemoryShape& shape = layout_.shape;
  shape.logits_bytes = static_cast<std::uint64_t>(model_.vocab.n_tokens()) * sizeof(float);
  if (!layout_.reason.empty()) return std::move(layout_);
  for (const CellCache& cache : layout_.kv) shape.kv_row_bytes += cache.row_bytes();
  if (layout_.window && layout_.window->row_bytes() > 0) {
    shape.window_row_bytes = layout_.window->row_bytes();
    shape.window_tokens = WindowTokens();
  }
  if (layout_.recurrent) shape.snapshot_bytes = layout_.recurrent->bytes();
  families::Selection selection = families::SelectPolicy(shape, {});
  layout_.policy = selection.policy;
  layout_.reason = std::move(selection.reason);
  return std::move(layout_);
}

}  // namespace

MemoryLayout InspectMemory(llama_context* context, const llama_model& model, bool stage) {
  llama_memory_i* memory = llama_get_memory(context);
  Inspector inspector(model,
                      stage ? llama_n_ctx_seq(context) : std::numeric_limits<std::uint64_t>::max());
  // Derived classes before their bases: hybrid_idx is a hybrid.
  if (memory == nullptr) {
    inspector.Off("this model keeps no state between calls");
  } else if (dynamic_cast<llama_kv_cache_dsv4*>(memory) != nullptr) {
    inspector.Off("DeepSeek-V4's compressed caches cannot be exported exactly");
  } else if (dynamic_cast<llama_memory_hybrid_idx*>(memory) != nullptr) {
    inspector.Off("Qwen4-exp's indexer cache is not supported");
  } else if (dynamic_cast<llama_kv_cache_dsa_iswa*>(memory) != nullptr) {
    inspector.Off("an indexer cache with a sliding window is not supported");
  } else if (auto* dense = dynamic_cast<llama_kv_cache*>(memory)) {
    inspector.Kv(dense);
  } else if (auto* window = dynamic_cast<llama_kv_cache_iswa*>(memory)) {
    inspector.SlidingWindow(*window);
  } else if (auto* dsa = dynamic_cast<llama_kv_cache_dsa*>(memory)) {
    inspector.Kv(dsa->get_mla());
    inspector.Kv(dsa->get_lid());
  } else if (auto* msa = dynamic_cast<llama_kv_cache_msa*>(memory)) {
    inspector.Kv(msa->get_base());
    inspector.Kv(msa->get_idx(),
                 /*keys_only=*/true);  // its value tensors are allocated, never used
  } else if (auto* hybrid = dynamic_cast<llama_memory_hybrid*>(memory)) {
    inspector.Kv(hybrid->get_mem_attn());
    inspector.Recurrent(hybrid->get_mem_recr());
  } else if (auto* hybrid_window = dynamic_cast<llama_memory_hybrid_iswa*>(memory)) {
    inspector.SlidingWindow(*hybrid_window->get_mem_attn());
    inspector.Recurrent(hybrid_window->get_mem_recr());
  } else if (auto* recurrent = dynamic_cast<llama_memory_recurrent*>(memory)) {
    inspector.Recurrent(recurrent);
  } else {
    inspector.Off("this version of llama.cpp has a memory class that skippy does not know");
  }
  return inspector.Finish();
}

Result<std::vector<runtime::StatePart>> PartsOf(const MemoryLayout& layout, Component component) {
  std::vector<TensorShare> shares;
  const auto add = [&](const std::vector<TensorShare>& more) {
    shares.insert(shares.end(), more.begin(), more.end());
  };
  switch (component) {
    case Component::kKv:
      for (const CellCache& cache : layout.kv) add(cache.Shares());
      break;
    case Component::kWindow:
      if (layout.window) add(layout.window->Shares());
      break;
    case Component::kSnapshot:
      if (layout.recurrent) add(layout.recurrent->Shares());
      break;
    case Component::kLogits: break;
  }
  return PartsOf(shares);
}

}  // namespace skippy::llama
