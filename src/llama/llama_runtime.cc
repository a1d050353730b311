#include "llama/llama_runtime.h"

#include <fmt/format.h>
#include <llama.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "llama/context_params.h"
#include "llama/full_state.h"
#include "llama/log_hook.h"
#include "llama/memory_layout.h"
#include "llama/stage_io.h"
#include "runtime/full_state.h"
#include "runtime/stage_access.h"

namespace skippy::llama {
namespace {

struct ContextFree {
  void operator()(llama_context* context) const { llama_free(context); }
};
using ContextPtr = std::unique_ptr<llama_context, ContextFree>;

struct Lane {
  Pos end = 0;
  Pos window_from = 0;  // window rows before this were never imported
  bool broken = false;  // after a failed decode, until cleared
  // llama.cpp chose the cells (a full state was imported): only Decode, End and Clear work.
  bool elsewhere = false;
};

class LlamaRuntime final : public runtime::Runtime,
                           public runtime::FullStateAccess,
                           public runtime::StageAccess {
 public:
  // `stage`: null for a whole model.
  LlamaRuntime(const Model& model, const runtime::RuntimeOptions& options, ContextPtr context,
               std::unique_ptr<StageIo> stage);

  const runtime::RuntimeInfo& info() const override { return info_; }
  Status Decode(std::span<const runtime::DecodeItem> items) override;
  std::span<const float> Logits(std::size_t item) override;
  Pos End(SeqId lane) const override { return Known(lane) ? lanes_[lane.value].end : 0; }
  Pos WindowHeldFrom(SeqId lane) const override;
  bool Truncate(SeqId lane, Pos end) override;
  void Clear(SeqId lane) override;
  Status Copy(SeqId from, SeqId to) override;
  Status ExportRows(SeqId lane, Component component, PosRange positions,
                    MutableByteSpan out) override;
  Status ExportSnapshot(SeqId lane, MutableByteSpan out) override;
  Status Import(const runtime::ImportRequest& request) override;
  Result<std::vector<AdapterIdentity>> ResolveAdapters(
      std::span<const std::pair<std::uint32_t, float>> adapters) const override;
  Status UseAdapters(std::span<const std::pair<std::uint32_t, float>> adapters) override;
  Result<std::vector<std::byte>> ExportFullState(SeqId lane) override;
  Status ImportFullState(SeqId lane, ByteSpan state) override;
  std::uint32_t input_width() const override { return stage_ ? stage_->nodes().width : 0; }
  std::uint32_t output_width() const override { return Captures() ? stage_->nodes().width : 0; }
  Status DecodeRows(std::span<const runtime::RowsItem> items) override;
  std::vector<runtime::StatePart> Parts(Component component) const override {
    return parts_[static_cast<std::size_t>(component)];
  }
  std::span<const float> OutputRows(std::size_t item) const override;

 private:
  void LearnParts();
  bool Known(SeqId lane) const { return lane.value < lanes_.size(); }
  Status CheckLane(SeqId lane) const;
  Status CheckInPlace(SeqId lane) const;
  // A step of a lane: what Decode and DecodeRows have in common.
  struct Step {
    SeqId lane;
    Pos pos;
    Pos tokens;
    bool want_logits;
    Pos end() const { return pos + tokens; }
  };
  bool Captures() const { return stage_ != nullptr && stage_->captures(); }
  Status CheckSteps(std::span<const Step> steps) const;
  Status CheckTokens(TokenSpan tokens) const;
  void FillBatch(std::span<const Step> steps);
  Status Run(std::span<const Step> steps);
  // With the tokens or rows in place: fills the batch, runs it, moves the lanes on.
  Status Advance(std::span<const Step> steps);
  Pos RingHeldFrom(SeqId lane) const;
  bool InPlace(SeqId lane, PosRange positions) const;
  Status CheckImport(const runtime::ImportRequest& request) const;
  Status CheckSlices(std::span<const RowSlice> slices, std::uint64_t row_bytes, PosRange needed,
                     const char* what) const;
  Status ImportChecked(const runtime::ImportRequest& request);
  void ClaimAll(SeqId lane, Pos end, TokenSpan tokens);
  Status CopyChecked(SeqId from, SeqId to);

  const Model& model_;
  const std::unique_ptr<StageIo> stage_;  // the context calls it
  ContextPtr context_;
  MemoryLayout layout_;
  runtime::RuntimeInfo info_;
  std::vector<Lane> lanes_;
  std::array<std::vector<runtime::StatePart>, kComponentCount> parts_;  // of a stage

  // The batch in the form that llama_decode wants; reused.
  std::vector<Step> steps_;
  std::vector<llama_token> tokens_;
  std::span<const float> rows_;  // a stage's input, where it enters as embeddings
  std::vector<llama_pos> positions_;
  std::vector<std::int32_t> sequence_counts_;
  std::vector<llama_seq_id> sequences_;
  std::vector<llama_seq_id*> sequence_pointers_;
  std::vector<std::int8_t> wants_logits_;
  std::vector<std::int32_t> logits_rows_;  // of each item of the last Decode; -1: not wanted
  std::vector<PosRange> output_rows_;      // of each item of the last step
};

LlamaRuntime::LlamaRuntime(const Model& model, const runtime::RuntimeOptions& options,
                           ContextPtr context, std::unique_ptr<StageIo> stage)
    : model_(model),
      stage_(std::move(stage)),
      context_(std::move(context)),
      layout_(InspectMemory(context_.get(), *model.raw(), stage_ != nullptr)),
      lanes_(options.lanes) {
  info_.shape = layout_.shape;
  info_.policy = layout_.policy;
  info_.policy_reason = layout_.reason;
  info_.lanes = options.lanes;
  const std::uint32_t cells = llama_n_ctx_seq(context_.get());
  info_.context = std::min(cells, LearnedPositions(model));
  info_.chunk = options.chunk;
  info_.vocab = static_cast<std::uint32_t>(llama_vocab_n_tokens(model.vocab()));
  info_.identity = RuntimeIdentity(model, options, cells);
  if (stage_ && info_.policy != PayloadPolicy::kOff) LearnParts();
}

// A stage's state is kept layer by layer: bytes of no known layer must not be kept at all.
void LlamaRuntime::LearnParts() {
  for (const Component component : {Component::kKv, Component::kWindow, Component::kSnapshot}) {
    auto parts = PartsOf(layout_, component);
    if (!parts) {
      info_.policy = PayloadPolicy::kOff;
      info_.policy_reason = parts.error().message;
      parts_ = {};
      return;
    }
    parts_[static_cast<std::size_t>(component)] = *std::move(parts);
  }
}

Status LlamaRuntime::CheckLane(SeqId lane) const {
  if (!Known(lane))
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("lane {} does not exist: there are {}", lane.value, lanes_.size()));
  if (lanes_[lane.value].broken)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("lane {} was not cleared after an error", lane.value));
  return {};
}

// For what reads or moves rows by their place.
Status LlamaRuntime::CheckInPlace(SeqId lane) const {
  SKIPPY_RETURN_IF_ERROR(CheckLane(lane));
  if (lanes_[lane.value].elsewhere)
    return Err(
        ErrorCode::kUnsupported,
        fmt::format("the rows of lane {} do not lie where a cold run puts them", lane.value));
  return {};
}

Status LlamaRuntime::CheckSteps(std::span<const Step> steps) const {
  if (steps.empty()) return Err(ErrorCode::kInvalidArgument, "decode: no items");
  if (steps.size() > lanes_.size())
    return Err(ErrorCode::kInvalidArgument, "decode: more items than lanes");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    SKIPPY_RETURN_IF_ERROR(CheckLane(step.lane));
    for (std::size_t j = 0; j < i; ++j)
      if (steps[j].lane == step.lane)
        return Err(ErrorCode::kInvalidArgument,
                   fmt::format("decode: lane {} twice", step.lane.value));
    const Pos most = steps.size() == 1 ? info_.chunk : 1;
    if (step.tokens == 0 || step.tokens > most)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("decode: {} tokens for one item, must be 1..{}", step.tokens, most));
    if (step.pos != lanes_[step.lane.value].end)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("decode: position {} in lane {}, which ends at {}", step.pos,
                             step.lane.value, lanes_[step.lane.value].end));
    if (step.tokens > info_.context - step.pos)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("decode: {} positions in a lane of {}", step.end(), info_.context));
  }
  return {};
}

Status LlamaRuntime::CheckTokens(TokenSpan tokens) const {
  for (const Token token : tokens)
    if (token < 0 || static_cast<std::uint32_t>(token) >= info_.vocab)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("token {} is not in the vocabulary of {} tokens", token, info_.vocab));
  return {};
}

void LlamaRuntime::FillBatch(std::span<const Step> steps) {
  positions_.clear();
  sequences_.clear();
  wants_logits_.clear();
  logits_rows_.clear();
  for (const Step& step : steps) {
    for (Pos p = step.pos; p < step.end(); ++p) positions_.push_back(static_cast<llama_pos>(p));
    sequences_.resize(positions_.size(), static_cast<llama_seq_id>(step.lane.value));
    // The last layer computes the rows that are wanted only: all of them, where rows leave it.
    wants_logits_.resize(positions_.size(), Captures() ? 1 : 0);
    if (step.want_logits) wants_logits_.back() = 1;
    logits_rows_.push_back(step.want_logits ? static_cast<std::int32_t>(positions_.size()) - 1
                                            : -1);
  }
  sequence_counts_.assign(positions_.size(), 1);
  sequence_pointers_.clear();
  for (llama_seq_id& sequence : sequences_) sequence_pointers_.push_back(&sequence);
}

Status LlamaRuntime::Run(std::span<const Step> steps) try {
  ClearErrors();
  const std::size_t count = positions_.size();
  if (!rows_.empty()) {
    // Embeddings bring their positions in as many rows as the model's rope has, text's own being
    // p, p, p, 0.
    for (std::uint32_t row = 1; row < PositionRows(model_); ++row)
      for (std::size_t i = 0; i < count; ++i) positions_.push_back(row < 3 ? positions_[i] : 0);
  }
  const llama_batch batch{.n_tokens = static_cast<std::int32_t>(count),
                          .token = rows_.empty() ? tokens_.data() : nullptr,
                          // llama.cpp does not write to it
                          .embd = rows_.empty() ? nullptr : const_cast<float*>(rows_.data()),
                          .pos = positions_.data(),
                          .n_seq_id = sequence_counts_.data(),
                          .seq_id = sequence_pointers_.data(),
                          .logits = wants_logits_.data()};
  const std::int32_t code = llama_decode(context_.get(), batch);
  if (code == 1)
    return Err(ErrorCode::kResourceExhausted,
               fmt::format("llama.cpp found no cells: {}", ErrorLines()));
  if (code == 2) return Err(ErrorCode::kCancelled, "llama.cpp was asked to stop");
  if (code != 0)
    return Err(code == -1 ? ErrorCode::kInvalidArgument : ErrorCode::kInternal,
               fmt::format("llama.cpp failed to decode ({}): {}", code, ErrorLines()));
  for (const Step& step : steps)
    if (!lanes_[step.lane.value].elsewhere && !InPlace(step.lane, {step.pos, step.end()}))
      return Err(ErrorCode::kInternal,
                 fmt::format("llama.cpp put positions [{}, {}) of lane {} into unexpected cells",
                             step.pos, step.end(), step.lane.value));
  return {};
} catch (const std::exception& error) {
  return Err(ErrorCode::kInternal, fmt::format("llama.cpp failed to decode: {}", error.what()));
}

Status LlamaRuntime::Advance(std::span<const Step> steps) {
  FillBatch(steps);
  auto status = Run(steps);
  if (status && stage_) status = stage_->Finish();
  if (!status) {
    logits_rows_.clear();
    output_rows_.clear();
    for (const Step& step : steps) lanes_[step.lane.value].broken = true;
    return status;
  }
  for (const Step& step : steps) lanes_[step.lane.value].end = step.end();
  return {};
}

Status LlamaRuntime::Decode(std::span<const runtime::DecodeItem> items) {
  logits_rows_.clear();
  output_rows_.clear();
  if (stage_ && !stage_->nodes().takes_tokens)
    return Err(ErrorCode::kUnsupported, "decode: a stage takes rows of activations, not tokens");
  steps_.clear();
  Pos before = 0;
  for (const runtime::DecodeItem& item : items) {
    const auto tokens = static_cast<Pos>(item.tokens.size());
    steps_.push_back({item.lane, item.pos, tokens, item.want_logits && !Captures()});
    output_rows_.push_back({before, before + tokens});
    before += tokens;
  }
  SKIPPY_RETURN_IF_ERROR(CheckSteps(steps_));
  tokens_.clear();
  for (const runtime::DecodeItem& item : items) {
    SKIPPY_RETURN_IF_ERROR(CheckTokens(item.tokens));
    tokens_.insert(tokens_.end(), item.tokens.begin(), item.tokens.end());
  }
  rows_ = {};
  if (stage_) stage_->Begin({}, before);
  return Advance(steps_);
}

Status LlamaRuntime::DecodeRows(std::span<const runtime::RowsItem> items) {
  logits_rows_.clear();
  output_rows_.clear();
  if (!stage_) return Err(ErrorCode::kUnsupported, "decode: a whole model takes tokens, not rows");
  const std::uint32_t width = stage_->nodes().width;
  steps_.clear();
  Pos before = 0;
  for (const runtime::RowsItem& item : items) {
    if (item.rows.size() % width != 0)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("decode: {} values are no rows of {}", item.rows.size(), width));
    const auto tokens = static_cast<Pos>(item.rows.size() / width);
    steps_.push_back({item.lane, item.pos, tokens, item.want_logits && !Captures()});
    output_rows_.push_back({before, before + tokens});
    before += tokens;
  }
  SKIPPY_RETURN_IF_ERROR(CheckSteps(steps_));
  std::vector<float> input;
  for (const runtime::RowsItem& item : items)
    input.insert(input.end(), item.rows.begin(), item.rows.end());
  stage_->Begin(input, before);
  // Injected rows are written over a node of a graph that begins with tokens.
  const bool injected = !stage_->nodes().inject.empty();
  rows_ = injected ? std::span<const float>() : input;
  tokens_.assign(injected ? before : 0, 0);
  return Advance(steps_);
}

std::span<const float> LlamaRuntime::OutputRows(std::size_t item) const {
  if (item >= output_rows_.size() || !Captures()) return {};
  const std::size_t width = stage_->nodes().width;
  return stage_->captured().subspan(output_rows_[item].begin * width,
                                    output_rows_[item].size() * width);
}

std::span<const float> LlamaRuntime::Logits(std::size_t item) {
  if (item >= logits_rows_.size() || logits_rows_[item] < 0) return {};
  const float* logits = llama_get_logits_ith(context_.get(), logits_rows_[item]);
  if (logits == nullptr) return {};
  return {logits, info_.vocab};
}

Pos LlamaRuntime::RingHeldFrom(SeqId lane) const {
  const Pos end = lanes_[lane.value].end;
  const Pos overwritten = end > layout_.window->cells() ? end - layout_.window->cells() : 0;
  return std::max(lanes_[lane.value].window_from, overwritten);
}

Pos LlamaRuntime::WindowHeldFrom(SeqId lane) const {
  return Known(lane) && info_.shape.HasWindow() ? RingHeldFrom(lane) : 0;
}

bool LlamaRuntime::InPlace(SeqId lane, PosRange positions) const {
  for (const CellCache& cache : layout_.kv)
    if (!cache.InPlace(lane, positions)) return false;
  if (layout_.window && !layout_.window->InPlace(lane, positions)) return false;
  return !layout_.recurrent || layout_.recurrent->InPlace(lane, positions.end);
}

bool LlamaRuntime::Truncate(SeqId lane, Pos end) {
  if (!CheckInPlace(lane)) return false;
  Lane& state = lanes_[lane.value];
  if (end == state.end) return true;
  if (end > state.end) return false;
  if (end == 0) {
    Clear(lane);
    return true;
  }
  if (info_.policy == PayloadPolicy::kOff || info_.shape.HasSnapshot()) return false;
  if (layout_.window && info_.shape.HasWindow() &&
      RingHeldFrom(lane) > info_.shape.WindowBegin(end))
    return false;
  if (layout_.window) {
    // Read before the cut: what the ring still holds depends on the old end.
    state.window_from = RingHeldFrom(lane);
    layout_.window->CutRing(lane, end, state.end);
  }
  for (CellCache& cache : layout_.kv) cache.Drop(lane, end);
  if (layout_.recurrent) layout_.recurrent->MoveTo(lane, end);
  state.end = end;
  state.broken = !InPlace(lane, {0, end});
  return !state.broken;
}

void LlamaRuntime::Clear(SeqId lane) {
  if (!Known(lane)) return;
  llama_memory_seq_rm(llama_get_memory(context_.get()), static_cast<llama_seq_id>(lane.value), -1,
                      -1);
  lanes_[lane.value] = Lane{};
}

Status LlamaRuntime::ExportRows(SeqId lane, Component component, PosRange positions,
                                MutableByteSpan out) {
  SKIPPY_RETURN_IF_ERROR(CheckInPlace(lane));
  const bool window = component == Component::kWindow;
  const std::uint64_t row_bytes = window                        ? info_.shape.window_row_bytes
                                  : component == Component::kKv ? info_.shape.kv_row_bytes
                                                                : 0;
  if (row_bytes == 0) return Err(ErrorCode::kUnsupported, "export: this model has no such rows");
  const Pos held_from = window ? RingHeldFrom(lane) : 0;
  if (positions.empty() || positions.begin < held_from || positions.end > End(lane))
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("export: rows [{}, {}) of lane {}, which holds [{}, {})",
                           positions.begin, positions.end, lane.value, held_from, End(lane)));
  if (out.size() != positions.size() * row_bytes)
    return Err(ErrorCode::kInvalidArgument, fmt::format("export: {} bytes for {} rows of {}",
                                                        out.size(), positions.size(), row_bytes));
  llama_synchronize(context_.get());
  if (window) {
    layout_.window->Read(lane, positions, 0, out);
    return {};
  }
  std::size_t prefix = 0;
  for (const CellCache& cache : layout_.kv) {
    cache.Read(lane, positions, prefix, out);
    prefix += cache.row_bytes();
  }
  return {};
}

Status LlamaRuntime::ExportSnapshot(SeqId lane, MutableByteSpan out) {
  SKIPPY_RETURN_IF_ERROR(CheckLane(lane));
  if (!info_.shape.HasSnapshot())
    return Err(ErrorCode::kUnsupported, "export: this model has no snapshots");
  if (out.size() != info_.shape.snapshot_bytes)
    return Err(ErrorCode::kInvalidArgument, fmt::format("export: {} bytes for a snapshot of {}",
                                                        out.size(), info_.shape.snapshot_bytes));
  if (End(lane) == 0)
    return Err(ErrorCode::kInvalidArgument, fmt::format("export: lane {} is empty", lane.value));
  llama_synchronize(context_.get());
  if (!layout_.recurrent->Export(lane, out))
    return Err(ErrorCode::kInternal,
               fmt::format("export: lane {} has no recurrent state", lane.value));
  return {};
}

Status LlamaRuntime::CheckSlices(std::span<const RowSlice> slices, std::uint64_t row_bytes,
                                 PosRange needed, const char* what) const {
  if (row_bytes == 0) {
    if (slices.empty()) return {};
    return Err(ErrorCode::kInvalidArgument, fmt::format("import: this model has no {} rows", what));
  }
  if (slices.empty() && needed.empty()) return {};
  if (slices.empty() || slices.front().positions.begin > needed.begin ||
      slices.back().positions.end != needed.end)
    return Err(ErrorCode::kInvalidArgument, fmt::format("import: {} rows do not cover [{}, {})",
                                                        what, needed.begin, needed.end));
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const RowSlice& slice = slices[i];
    if (slice.positions.empty() || (i > 0 && slice.positions.begin != slices[i - 1].positions.end))
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("import: {} rows have a gap or overlap", what));
    if (slice.first_row > slice.block_rows ||
        slice.positions.size() > slice.block_rows - slice.first_row ||
        slice.block.size() != slice.block_rows * row_bytes)
      return Err(
          ErrorCode::kInvalidArgument,
          fmt::format(
              "import: a {} block of {} bytes does not hold rows [{}, {}) of {} with {} bytes each",
              what, slice.block.size(), slice.first_row, slice.first_row + slice.positions.size(),
              slice.block_rows, row_bytes));
  }
  return {};
}

Status LlamaRuntime::CheckImport(const runtime::ImportRequest& request) const {
  if (info_.policy == PayloadPolicy::kOff) return Err(ErrorCode::kUnsupported, info_.policy_reason);
  if (request.end > info_.context)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("import: {} positions into a lane of {}", request.end, info_.context));
  if (request.tokens.size() != request.end)
    return Err(ErrorCode::kInvalidArgument, fmt::format("import: {} tokens for {} positions",
                                                        request.tokens.size(), request.end));
  const MemoryShape& shape = info_.shape;
  SKIPPY_RETURN_IF_ERROR(CheckSlices(request.kv, shape.kv_row_bytes, {0, request.end}, "KV"));
  SKIPPY_RETURN_IF_ERROR(CheckSlices(request.window, shape.window_row_bytes,
                                     {shape.WindowBegin(request.end), request.end}, "window"));
  if (layout_.window && !request.window.empty() &&
      request.end - request.window.front().positions.begin > layout_.window->cells())
    return Err(
        ErrorCode::kInvalidArgument,
        fmt::format("import: more window rows than the {} that fit", layout_.window->cells()));
  if (request.snapshot.size() != (request.end > 0 ? shape.snapshot_bytes : 0))
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("import: {} bytes for a snapshot of {}", request.snapshot.size(),
                           shape.snapshot_bytes));
  return {};
}

void LlamaRuntime::ClaimAll(SeqId lane, Pos end, TokenSpan tokens) {
  for (CellCache& cache : layout_.kv) cache.Claim(lane, {0, end}, tokens);
  if (!layout_.window) return;
  // All that a cold run would still have in its cells, so that llama.cpp goes on where a cold run
  // does; rows before the window are masked, whatever they contain.
  const Pos cells = layout_.window->cells();
  layout_.window->Claim(lane, {end > cells ? end - cells : 0, end}, tokens);
}

Status LlamaRuntime::ImportChecked(const runtime::ImportRequest& request) try {
  if (request.end == 0) return {};
  const SeqId lane = request.lane;
  ClaimAll(lane, request.end, request.tokens);
  std::size_t prefix = 0;
  for (CellCache& cache : layout_.kv) {
    cache.Write(lane, request.kv, prefix);
    prefix += cache.row_bytes();
  }
  if (layout_.window) layout_.window->Write(lane, request.window, 0);
  if (layout_.recurrent && !layout_.recurrent->Import(lane, request.end, request.snapshot))
    return Err(ErrorCode::kInternal, "import: llama.cpp found no row for the recurrent state");
  if (!InPlace(lane, {0, request.end}))
    return Err(ErrorCode::kInternal, fmt::format("import: lane {} does not hold [0, {}) afterwards",
                                                 lane.value, request.end));
  lanes_[lane.value].end = request.end;
  lanes_[lane.value].window_from =
      request.window.empty() ? 0 : request.window.front().positions.begin;
  return {};
} catch (const std::exception& error) {
  return Err(ErrorCode::kInternal, fmt::format("import: {}", error.what()));
}

Status LlamaRuntime::Import(const runtime::ImportRequest& request) {
  if (!Known(request.lane))
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("lane {} does not exist", request.lane.value));
  llama_synchronize(context_.get());
  Clear(request.lane);
  SKIPPY_RETURN_IF_ERROR(CheckImport(request));
  auto status = ImportChecked(request);
  if (!status) Clear(request.lane);
  return status;
}

Status LlamaRuntime::CopyChecked(SeqId from, SeqId to) try {
  const Lane source = lanes_[from.value];
  std::vector<Token> tokens(source.end, 0);
  if (!layout_.kv.empty())
    for (Pos p = 0; p < source.end; ++p) tokens[p] = layout_.kv.front().TokenAt(from, p);
  ClaimAll(to, source.end, tokens);
  for (CellCache& cache : layout_.kv) cache.Copy(from, to, {0, source.end});
  if (layout_.window) layout_.window->Copy(from, to, {RingHeldFrom(from), source.end});
  if (layout_.recurrent) {
    std::vector<std::byte> state(layout_.recurrent->bytes());
    if (!layout_.recurrent->Export(from, state) ||
        !layout_.recurrent->Import(to, source.end, state))
      return Err(ErrorCode::kInternal, "copy: the recurrent state could not be moved");
  }
  if (!InPlace(to, {0, source.end}))
    return Err(ErrorCode::kInternal, "copy: positions differ afterwards");
  lanes_[to.value] = source;
  return {};
} catch (const std::exception& error) {
  return Err(ErrorCode::kInternal, fmt::format("copy: {}", error.what()));
}

Status LlamaRuntime::Copy(SeqId from, SeqId to) {
  SKIPPY_RETURN_IF_ERROR(CheckInPlace(from));
  SKIPPY_RETURN_IF_ERROR(CheckLane(to));
  if (info_.policy == PayloadPolicy::kOff) return Err(ErrorCode::kUnsupported, info_.policy_reason);
  if (from == to || End(to) != 0)
    return Err(ErrorCode::kInvalidArgument, fmt::format("copy: lane {} is not empty", to.value));
  if (End(from) == 0) return {};
  llama_synchronize(context_.get());
  auto status = CopyChecked(from, to);
  if (!status) Clear(to);
  return status;
}

Result<std::vector<std::byte>> LlamaRuntime::ExportFullState(SeqId lane) {
  SKIPPY_RETURN_IF_ERROR(CheckLane(lane));
  llama_synchronize(context_.get());
  return ReadFullState(context_.get(), lane);
}

Status LlamaRuntime::ImportFullState(SeqId lane, ByteSpan state) {
  SKIPPY_RETURN_IF_ERROR(CheckLane(lane));
  if (End(lane) != 0)
    return Err(ErrorCode::kInvalidArgument, fmt::format("lane {} is not empty", lane.value));
  llama_synchronize(context_.get());
  const Result<Pos> end = WriteFullState(context_.get(), lane, state);
  if (!end) {
    Clear(lane);
    return tl::unexpected<Error>(end.error());
  }
  Lane& filled = lanes_[lane.value];
  filled.end = *end;
  filled.window_from = info_.shape.HasWindow() ? info_.shape.WindowBegin(*end) : 0;
  filled.elsewhere = !InPlace(lane, {0, *end});
  return {};
}

Result<std::vector<AdapterIdentity>> LlamaRuntime::ResolveAdapters(
    std::span<const std::pair<std::uint32_t, float>> adapters) const {
  std::vector<std::pair<std::uint32_t, float>> wanted(adapters.begin(), adapters.end());
  std::sort(wanted.begin(), wanted.end());
  std::vector<AdapterIdentity> identities;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& [index, scale] = wanted[i];
    if (index >= model_.adapters().size())
      return Err(
          ErrorCode::kInvalidArgument,
          fmt::format("adapter {} does not exist: {} are loaded", index, model_.adapters().size()));
    if (i > 0 && wanted[i - 1].first == index)
      return Err(ErrorCode::kInvalidArgument, fmt::format("adapter {} is named twice", index));
    if (!std::isfinite(scale))
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("adapter {}: scale is not a number", index));
    if (scale != 0.0F) identities.push_back({model_.adapters()[index].content, scale});
  }
  return identities;
}

Status LlamaRuntime::UseAdapters(std::span<const std::pair<std::uint32_t, float>> adapters) try {
  SKIPPY_TRY([[maybe_unused]] const auto identities, ResolveAdapters(adapters));
  std::vector<std::pair<std::uint32_t, float>> wanted(adapters.begin(), adapters.end());
  std::sort(wanted.begin(), wanted.end());
  std::vector<llama_adapter_lora*> raw;
  std::vector<float> scales;
  for (const auto& [index, scale] : wanted) {
    if (scale == 0.0F) continue;
    raw.push_back(model_.adapters()[index].raw);
    scales.push_back(scale);
  }
  llama_set_adapters_lora(context_.get(), raw.data(), raw.size(), scales.data());
  return {};
} catch (const std::exception& error) {
  return Err(ErrorCode::kInternal, fmt::format("adapters: {}", error.what()));
}

}  // namespace

namespace {

Result<std::unique_ptr<runtime::Runtime>> Make(const Model& model,
                                               const runtime::RuntimeOptions& options,
                                               const StageNodes* nodes) try {
  SKIPPY_TRY(const runtime::RuntimeOptions resolved, ResolveOptions(model, options));
  const std::uint64_t needed = EstimateContextBytes(model, resolved);
  const std::uint64_t available = AvailableBytes(model);
  if (available > 0 && needed > available)
    return Err(
        ErrorCode::kResourceExhausted,
        fmt::format("a context of {} positions for {} lanes needs about {} bytes, {} are available",
                    resolved.context, resolved.lanes, needed, available));
  llama_context_params params = ContextParams(resolved);
  std::unique_ptr<StageIo> stage;
  if (nodes != nullptr) {
    stage = std::make_unique<StageIo>(*nodes);
    params.cb_eval = &StageIo::OnNode;
    params.cb_eval_user_data = stage.get();
    if (stage->captures()) params.n_outputs_max = params.n_batch;
  }
  ClearErrors();
  ContextPtr context(llama_init_from_model(model.raw(), params));
  if (!context)
    return Err(
        ErrorCode::kResourceExhausted,
        fmt::format("llama.cpp cannot create the context (about {} bytes needed, {} available): {}",
                    needed, available, ErrorLines()));
  return std::unique_ptr<runtime::Runtime>(
      std::make_unique<LlamaRuntime>(model, resolved, std::move(context), std::move(stage)));
} catch (const std::exception& error) {
  return Err(ErrorCode::kInternal, fmt::format("creating the context: {}", error.what()));
}

}  // namespace

Result<std::unique_ptr<runtime::Runtime>> MakeRuntime(const Model& model,
                                                      const runtime::RuntimeOptions& options) {
  return Make(model, options, nullptr);
}

Result<StageRuntime> MakeStageRuntime(const Model& model, const runtime::RuntimeOptions& options,
                                      const StageNodes& nodes) {
  StageRuntime made;
  SKIPPY_TRY(made.runtime, Make(model, options, &nodes));
  made.stage = dynamic_cast<runtime::StageAccess*>(made.runtime.get());
  return made;
}

}  // namespace skippy::llama
