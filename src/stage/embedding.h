// The embedding rows of a model, read from a vocabulary package or from a first stage that has
// them: what enters the first stage.
//
// Guarantees: the bits that llama.cpp's own lookup gives on the CPU. Threads: thread-safe for
// reading. Errors: kInvalidArgument (no such tensor, a token beyond it, the file became shorter).
// Cost: one read of a row a token; nothing is kept.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "pipeline/token_rows.h"
#include "skippy/result.h"
#include "skippy/types.h"
#include "stage/source.h"

namespace skippy::stage {

class EmbeddingTable final : public pipeline::TokenRows {
 public:
  // `folder`: of the package.
  static Result<std::unique_ptr<EmbeddingTable>> Open(const std::string& folder);

  std::uint32_t width() const override { return width_; }
  std::uint32_t tokens() const override { return static_cast<std::uint32_t>(tensor_->shape[1]); }
  Status Rows(TokenSpan tokens, std::span<float> out) const override;

 private:
  EmbeddingTable() = default;

  std::unique_ptr<Source> source_;
  const SourceTensor* tensor_ = nullptr;
  std::uint32_t width_ = 0;
  std::uint64_t row_bytes_ = 0;
  float scale_ = 1;
};

}  // namespace skippy::stage
