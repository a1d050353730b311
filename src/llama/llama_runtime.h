// The runtime port on llama.cpp: isolated streams (kv_unified = false), one prefill sequence a
// call.
#pragma once

#include <cstdint>
#include <memory>

#include "llama/model.h"
#include "llama/stage_io.h"
#include "runtime/runtime.h"
#include "runtime/runtime_options.h"
#include "runtime/stage_access.h"
#include "skippy/result.h"

struct llama_context;

namespace skippy::llama {

// Defaults: the model's training length, at most 8192 positions; chunks of 256 tokens; the number
// of physical cores. A context is rounded up to a multiple of 256 (info().context has the result).
//
// kInvalidArgument: bad option (message names it); kResourceExhausted: the context does not fit
// into memory (message has needed and available bytes). `model` must outlive the runtime.
Result<std::unique_ptr<runtime::Runtime>> MakeRuntime(const Model& model,
                                                      const runtime::RuntimeOptions& options);

struct StageRuntime {
  std::unique_ptr<runtime::Runtime> runtime;
  runtime::StageAccess* stage = nullptr;  // of `runtime`
};
// A range of a model's layers, as `skippy stage split` cuts it; `model` is that file.
Result<StageRuntime> MakeStageRuntime(const Model& model, const runtime::RuntimeOptions& options,
                                      const StageNodes& nodes);

}  // namespace skippy::llama
