#include "stage/chain.h"

#include <fmt/format.h>

#include <algorithm>

namespace skippy::stage {
namespace {

// Stages 0..a, a..b, ..., z..end of one model.
Status CheckRow(const Manifest& vocabulary, const std::vector<Manifest>& stages,
                std::uint32_t end) {
  std::uint32_t at = 0;
  for (const Manifest& stage : stages) {
    if (stage.kind != "stage")
      return Err(ErrorCode::kInvalidArgument, "a vocabulary is given where a stage should be");
    if (stage.model != vocabulary.model)
      return Err(
          ErrorCode::kInvalidArgument,
          fmt::format("stage {} is of {} ({}), the vocabulary of {} ({})", ToString(stage.layers),
                      stage.model.name, stage.model.digest.ShortHex(), vocabulary.model.name,
                      vocabulary.model.digest.ShortHex()));
    if (stage.layers.begin != at)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("{} before stage {}: the layers before it end at {}",
                             stage.layers.begin > at ? "a gap" : "an overlap",
                             ToString(stage.layers), at));
    at = stage.layers.end;
  }
  if (at != end)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("the stages end at layer {} of {}", at, end));
  return {};
}

}  // namespace

Result<std::unique_ptr<Chain>> Chain::Load(const std::string& vocabulary,
                                           std::vector<std::string> stages,
                                           const runtime::RuntimeOptions& options,
                                           std::optional<std::uint32_t> end) {
  SKIPPY_TRY(const Manifest words, ReadManifest(vocabulary));
  std::vector<std::pair<Manifest, std::string>> found;
  for (std::string& folder : stages) {
    SKIPPY_TRY(Manifest manifest, ReadManifest(folder));
    found.emplace_back(std::move(manifest), std::move(folder));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.first.layers.begin < b.first.layers.begin;
  });
  std::vector<Manifest> manifests;
  for (const auto& [manifest, folder] : found) manifests.push_back(manifest);
  SKIPPY_RETURN_IF_ERROR(CheckRow(words, manifests, end.value_or(words.model.layers)));
  std::unique_ptr<Chain> chain(new Chain());
  chain->model_ = words.model;
  SKIPPY_TRY(chain->embedding_, EmbeddingTable::Open(vocabulary));
  for (const auto& [manifest, folder] : found) {
    SKIPPY_TRY(LoadedStage stage, LoadStage(folder, {.runtime = options}));
    chain->stages_.push_back(std::move(stage));
  }
  return chain;
}

Status Chain::Decode(SeqId lane, Pos pos, TokenSpan tokens, bool want_logits) {
  std::vector<float> rows(tokens.size() * embedding_->width());
  SKIPPY_RETURN_IF_ERROR(embedding_->Rows(tokens, rows));
  for (LoadedStage& stage : stages_) {
    if (hook_) {
      SKIPPY_TRY(rows, hook_(rows, stage.manifest));
    }
    const runtime::RowsItem item{lane, pos, rows, want_logits};
    SKIPPY_RETURN_IF_ERROR(stage.runtime.stage->DecodeRows({&item, 1}));
    const std::span<const float> left = stage.runtime.stage->OutputRows(0);
    rows.assign(left.begin(), left.end());
  }
  return {};
}

void Chain::Clear(SeqId lane) {
  for (LoadedStage& stage : stages_) stage.runtime.runtime->Clear(lane);
}

std::span<const float> Chain::Logits() { return stages_.back().runtime.runtime->Logits(0); }

std::span<const float> Chain::Rows() const { return stages_.back().runtime.stage->OutputRows(0); }

}  // namespace skippy::stage
