#include "llama/stage_io.h"

#include <fmt/format.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <cstring>

namespace skippy::llama {

bool StageIo::OnNode(ggml_tensor* node, bool ask, void* self) {
  auto& io = *static_cast<StageIo*>(self);
  if (!ask) return io.Evaluated(node);
  const char* name = ggml_get_name(node);
  return (!io.nodes_.inject.empty() && io.nodes_.inject == name) ||
         (io.captures() && io.nodes_.capture == name);
}

bool StageIo::Evaluated(ggml_tensor* node) {
  const bool fits = node->type == GGML_TYPE_F32 && ggml_is_contiguous(node);
  if (nodes_.capture == ggml_get_name(node)) {
    ++captures_;
    captured_.resize(static_cast<std::size_t>(ggml_nelements(node)));
    if (fits) ggml_backend_tensor_get(node, captured_.data(), 0, ggml_nbytes(node));
    return false;  // nothing behind it is needed
  }
  if (fits && ggml_nbytes(node) == input_.size_bytes()) {
    ++injections_;
    ggml_backend_tensor_set(node, input_.data(), 0, input_.size_bytes());
  }
  return true;
}

void StageIo::Begin(std::span<const float> rows, std::size_t tokens) {
  input_ = rows;
  expected_ = tokens * nodes_.width;
  captured_.clear();
  injections_ = 0;
  captures_ = 0;
}

Status StageIo::Finish() const {
  if (!nodes_.inject.empty() && !input_.empty() && injections_ != 1)
    return Err(ErrorCode::kInternal,
               fmt::format("the graph has '{}' {} times, not once", nodes_.inject, injections_));
  if (captures() && (captures_ != 1 || captured_.size() != expected_))
    return Err(ErrorCode::kInternal,
               fmt::format("the graph has '{}' {} times with {} values, not once with {}",
                           nodes_.capture, captures_, captured_.size(), expected_));
  return {};
}

}  // namespace skippy::llama
