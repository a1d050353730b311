// The runtime port on llama.cpp: isolated streams (kv_unified = false), one prefill sequence a
// call.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "llama/model.h"
#include "runtime/runtime.h"
#include "skippy/result.h"

struct llama_context;

namespace skippy::llama {

struct RuntimeOptions {
  // Positions a lane, rounded up to 256 (info().context has the result); 0: the model's training
  // length, capped at 8192.
  std::uint32_t context = 0;
  std::uint32_t lanes = 1;
  std::uint32_t chunk = 256;        // most tokens of one prefill call; the grid
  std::uint32_t threads = 0;        // 0: number of physical cores
  std::uint32_t threads_batch = 0;  // 0: as threads
  bool flash_attention = true;
  bool swa_full =
      false;  // keep full-size sliding-window caches (a cut may go back to any row held)
  std::string type_k = "f16";  // ggml type names: f32, f16, bf16, q8_0, q4_0, ...
  std::string type_v = "f16";
};

// kInvalidArgument: bad option (message names it); kResourceExhausted: the context does not fit
// into memory (message has needed and available bytes). `model` must outlive the runtime.
Result<std::unique_ptr<runtime::Runtime>> MakeRuntime(const Model& model,
                                                      const RuntimeOptions& options);

}  // namespace skippy::llama
