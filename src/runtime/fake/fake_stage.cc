#include "runtime/fake/fake_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/fake/fake_floats.h"

namespace skippy::runtime::fake {
namespace {

constexpr std::uint64_t kEmbeddingDomain = 0x456d62;
// Stages but the last have a vocabulary that nobody reads (docs/stages.md).
constexpr std::uint32_t kStubVocabulary = 32;

std::vector<StateLayout> LayoutsOf(const FakeStageOptions& options) {
  std::vector<StateLayout> layouts;
  for (std::uint32_t layer = options.begin; layer < options.end; ++layer) {
    layouts.push_back(LayoutOf(options.model[layer], options.window_tokens, options.chunk));
    layouts.back().shape_noise = options.shape_noise;
  }
  return layouts;
}

RuntimeInfo MakeInfo(const FakeStageOptions& options) {
  RuntimeInfo info;
  info.vocab = options.end == options.model.size() ? options.vocab : kStubVocabulary;
  info.shape = ShapeOf(LayoutsOf(options));
  info.shape.logits_bytes = info.vocab * sizeof(float);
  info.policy = info.shape.HasSnapshot() ? PayloadPolicy::kKvRecurrent : PayloadPolicy::kResidentKv;
  info.lanes = options.lanes;
  info.context = options.context;
  info.chunk = options.chunk;
  Identity& identity = info.identity;
  // Of the stage's own file, as a real one's.
  const std::uint64_t model = Mix(options.weights_seed, Mix(options.begin, options.end));
  std::memcpy(identity.model.bytes.data(), &model, sizeof model);
  identity.architecture = "fake";
  identity.runtime_build = "fake";
  identity.device = "fake";
  identity.kv_type_k = "bytes";
  identity.kv_type_v = "bytes";
  identity.streams = options.lanes;
  identity.context = options.context;
  identity.chunk = options.chunk;
  identity.threads = 1;
  identity.layer_end = options.end - options.begin;
  identity.topology = "stage";
  return info;
}

}  // namespace

FakeStage::FakeStage(const FakeStageOptions& options, FaultPlan faults)
    : options_(options),
      info_(MakeInfo(options)),
      lanes_(info_, LayoutsOf(options), options.tensors_first, std::move(faults)) {}

Status FakeStage::Decode(std::span<const DecodeItem> /*items*/) {
  return Err(ErrorCode::kUnsupported, "decode: a stage takes rows of activations, not tokens");
}

std::span<const float> FakeStage::Logits(std::size_t item) {
  if (item >= logits_.size()) return {};
  return logits_[item];
}

std::span<const float> FakeStage::OutputRows(std::size_t item) const {
  if (item >= rows_.size()) return {};
  return rows_[item];
}

void FakeStage::Run(const RowsItem& item, std::size_t items, std::vector<float>& rows,
                    std::vector<float>& logits) {
  const std::size_t width = options_.width;
  const std::size_t tokens = item.rows.size() / width;
  const std::uint64_t shape = Mix(items, tokens);
  DualHash hash;
  std::vector<float> row(width);
  for (std::size_t i = 0; i < tokens; ++i) {
    const std::span<const float> input = item.rows.subspan(i * width, width);
    std::copy(input.begin(), input.end(), row.begin());
    for (std::uint32_t layer = options_.begin; layer < options_.end; ++layer) {
      const DualHash read = ReadRow(row, options_.shape_noise);
      const auto token = static_cast<Token>(static_cast<std::uint32_t>(read.high));
      hash = lanes_.state(item.lane, layer - options_.begin)
                 .Step(token, Mix(options_.weights_seed, layer), Mix(shape, read.low));
      WriteRow(hash, row);
    }
    if (!Last()) rows.insert(rows.end(), row.begin(), row.end());
  }
  if (!Last() || !item.want_logits) return;
  logits.resize(options_.vocab);
  WriteLogits(hash, logits);
}

Status FakeStage::DecodeRows(std::span<const RowsItem> items) {
  rows_.clear();
  logits_.clear();
  std::vector<FakeStep> steps;
  for (const RowsItem& item : items) {
    if (item.rows.size() % options_.width != 0)
      return Err(ErrorCode::kInvalidArgument, fmt::format("decode: {} values are no rows of {}",
                                                          item.rows.size(), options_.width));
    steps.push_back({item.lane, item.pos, item.rows.size() / options_.width});
  }
  SKIPPY_TRY(const bool nan, lanes_.BeginDecode(steps));
  rows_.resize(items.size());
  logits_.resize(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    Run(items[i], items.size(), rows_[i], logits_[i]);
    if (nan)
      std::fill(logits_[i].begin(), logits_[i].end(), std::numeric_limits<float>::quiet_NaN());
  }
  return {};
}

Result<std::vector<AdapterIdentity>> FakeStage::ResolveAdapters(
    std::span<const std::pair<std::uint32_t, float>> adapters) const {
  if (adapters.empty()) return std::vector<AdapterIdentity>{};
  return Err(ErrorCode::kInvalidArgument,
             fmt::format("adapter {} is not loaded", adapters.front().first));
}

Status FakeStage::UseAdapters(std::span<const std::pair<std::uint32_t, float>> adapters) {
  SKIPPY_TRY([[maybe_unused]] const auto resolved, ResolveAdapters(adapters));
  return {};
}

Status FakeRows::Rows(TokenSpan tokens, std::span<float> out) const {
  if (out.size() != tokens.size() * width_)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("{} values are no {} rows of {}", out.size(), tokens.size(), width_));
  for (const Token token : tokens) {
    if (token < 0 || static_cast<std::uint32_t>(token) >= vocab_)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("token {} is not in the vocabulary of {} tokens", token, vocab_));
    const std::uint64_t seed = Mix(kEmbeddingDomain, static_cast<std::uint64_t>(token));
    WriteRow({seed, seed}, out.first(width_));
    out = out.subspan(width_);
  }
  return {};
}

}  // namespace skippy::runtime::fake
