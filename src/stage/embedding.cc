#include "stage/embedding.h"

#include <fmt/format.h>
#include <ggml.h>

#include <cstring>
#include <vector>

#include "stage/manifest.h"

namespace skippy::stage {

Result<std::unique_ptr<EmbeddingTable>> EmbeddingTable::Open(const std::string& folder) {
  SKIPPY_TRY(const Manifest manifest, ReadManifest(folder));
  if (!manifest.has_vocabulary())
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}' is a stage without the vocabulary", folder));
  std::unique_ptr<EmbeddingTable> table(new EmbeddingTable());
  SKIPPY_TRY(table->source_, Source::Open(folder + "/" + kSliceName));
  table->tensor_ = table->source_->Find("token_embd.weight");
  if (table->tensor_ == nullptr || table->tensor_->shape.size() != 2)
    return Err(ErrorCode::kInvalidArgument, fmt::format("'{}' has no token_embd.weight", folder));
  table->width_ = static_cast<std::uint32_t>(table->tensor_->shape[0]);
  table->row_bytes_ =
      ggml_row_size(static_cast<ggml_type>(table->tensor_->type), table->tensor_->shape[0]);
  table->scale_ = static_cast<float>(manifest.embedding_scale);
  return table;
}

Status EmbeddingTable::Rows(TokenSpan tokens, std::span<float> out) const {
  if (out.size() != tokens.size() * width_)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("{} values for {} rows of {}", out.size(), tokens.size(), width_));
  const auto to_float = ggml_get_type_traits(static_cast<ggml_type>(tensor_->type))->to_float;
  std::vector<std::byte> row(row_bytes_);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= tensor_->shape[1])
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("token {} is not in the vocabulary of {} tokens", tokens[i],
                             tensor_->shape[1]));
    SKIPPY_RETURN_IF_ERROR(
        source_->Read(*tensor_, row_bytes_ * static_cast<std::uint64_t>(tokens[i]), row));
    const std::span<float> values = out.subspan(i * width_, width_);
    if (to_float == nullptr) {
      std::memcpy(values.data(), row.data(), values.size_bytes());  // F32
    } else {
      to_float(row.data(), values.data(), width_);
    }
    if (scale_ != 1.0F)
      for (float& value : values) value *= scale_;
  }
  return {};
}

}  // namespace skippy::stage
