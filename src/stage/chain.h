// Stages of a model in one process, one behind the other: tokens in, logits out, or rows where the
// last layers are not among them.
//
// Guarantees: with the same settings, the bits of the whole model. Threads: single-threaded.
// Errors: kInvalidArgument (packages of different models, a gap, no first or last layers: said
// before anything is loaded), those of loading and of the stages. Cost: the stages' files in
// memory.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/runtime_options.h"
#include "skippy/result.h"
#include "skippy/types.h"
#include "stage/embedding.h"
#include "stage/load.h"
#include "stage/manifest.h"

namespace skippy::stage {

class Chain {
 public:
  // What a stage computes with instead of the rows that would enter it; an error ends the Decode.
  using RowsHook =
      std::function<Result<std::vector<float>>(std::span<const float> rows, const Manifest& stage)>;

  // `vocabulary`: the folder of the vocabulary package; `stages`: of the others, in any order, from
  // layer 0 on. `end`: where they must end; none: with the model.
  static Result<std::unique_ptr<Chain>> Load(const std::string& vocabulary,
                                             std::vector<std::string> stages,
                                             const runtime::RuntimeOptions& options,
                                             std::optional<std::uint32_t> end = std::nullopt);
  const ModelRecord& model() const { return model_; }
  std::uint32_t vocabulary() const { return embedding_->tokens(); }
  std::span<const LoadedStage> stages() const { return stages_; }
  // Called for every stage, the first too: embedding rows also travel. Empty: rows stay as they
  // are.
  void SetRowsHook(RowsHook hook) { hook_ = std::move(hook); }

  // tokens at [pos, pos + tokens.size()) of `lane`: as Runtime::Decode with one item.
  Status Decode(SeqId lane, Pos pos, TokenSpan tokens, bool want_logits);
  void Clear(SeqId lane);
  std::span<const float> Logits();
  // What left the last of the stages, token-major; empty when logits do.
  std::span<const float> Rows() const;

 private:
  Chain() = default;

  ModelRecord model_;
  std::unique_ptr<EmbeddingTable> embedding_;
  std::vector<LoadedStage> stages_;
  RowsHook hook_;
};

}  // namespace skippy::stage
