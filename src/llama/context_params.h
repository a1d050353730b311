// From RuntimeOptions to a llama_context: checked options, a memory estimate before anything is
// allocated, and the identity of the result.
//
// Errors: kInvalidArgument (an option, named), kResourceExhausted (needed and available bytes),
// kUnsupported (a model that cannot generate). No abort: shapes that llama.cpp asserts on are
// refused first.
#pragma once

#include <cstdint>
#include <string>

#include "llama/llama_runtime.h"
#include "skippy/identity.h"
#include "skippy/memory_shape.h"
#include "skippy/result.h"

struct llama_context_params;

namespace skippy::llama {

// Resolves zeros to defaults and checks every option against the model.
Result<runtime::RuntimeOptions> ResolveOptions(const Model& model,
                                               const runtime::RuntimeOptions& options);

// Positions that the model has learned embeddings for; llama.cpp asserts beyond them. No limit with
// rope.
std::uint32_t LearnedPositions(const Model& model);
// Numbers that a position takes in a batch of embeddings: 4 with sectioned rope, else 1.
std::uint32_t PositionRows(const Model& model);

llama_context_params ContextParams(const runtime::RuntimeOptions& resolved);

// An estimate from above, within a few percent for KV caches and coarser for compute buffers.
std::uint64_t EstimateContextBytes(const Model& model, const runtime::RuntimeOptions& resolved);
// What this process may still take: free device memory if layers are offloaded, else the smaller of
// the machine's available memory and the control group's rest. Zero: unknown.
std::uint64_t AvailableBytes(const Model& model);
// The same without a model: the host's memory.
std::uint64_t HostAvailableBytes();

// cells: cells a lane as llama.cpp laid them out.
Identity RuntimeIdentity(const Model& model, const runtime::RuntimeOptions& resolved,
                         std::uint32_t cells);

}  // namespace skippy::llama
