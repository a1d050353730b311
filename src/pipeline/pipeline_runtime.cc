#include "pipeline/pipeline_runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <map>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "pipeline/import_pieces.h"
#include "pipeline/recall.h"
#include "pipeline/stage_queue.h"

namespace skippy::pipeline {
namespace {

// What a call gave, whatever became of it.
template <class Value>
Value Wait(std::future<Value>& future) try {
  return future.get();
} catch (const std::exception& error) {
  return Err(ErrorCode::kInternal, fmt::format("calling a stage: {}", error.what()));
}

// The stage cannot be reached or the session is over, as opposed to an answer that is an error.
bool IsAway(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kCancelled;
}

}  // namespace

struct PipelineRuntime::Stage {
  explicit Stage(std::unique_ptr<StageLink> link) : queue(std::move(link)) {}

  StageDescription description;
  bool attached = false;
  StageQueue queue;

  DescribedStage described() const { return {queue.address(), description}; }
  const MemoryShape& shape() const { return description.info.shape; }
  bool Has(Component component) const {
    if (component == Component::kKv) return shape().HasKv();
    return component == Component::kWindow ? shape().HasWindow() : shape().HasSnapshot();
  }
  std::string Name() const { return NameOf(described()); }
  Error Named(const Error& error) const {
    return {error.code, fmt::format("{}: {}", Name(), error.message)};
  }
};

struct PipelineRuntime::Lane {
  // What one stage holds of it; none: unknown, until it is cleared.
  struct Share {
    std::optional<LanePlace> place = LanePlace{};
    std::future<Result<LanePlace>> restoring;  // valid: not waited for yet
  };
  Namespace ns;
  std::vector<Token> tokens;
  std::vector<Share> shares;
  StageRestore restored;  // what `restoring` brings back
};

PipelineRuntime::PipelineRuntime(const Coordinator& coordinator, const TokenRows& rows,
                                 const PipelineOptions& options)
    : coordinator_(coordinator), rows_(rows), activations_(options.activation_bytes) {}

// Restores that still go on use what is destroyed before the stages.
PipelineRuntime::~PipelineRuntime() {
  for (Lane& lane : lanes_) SettleAll(lane);
}

Result<std::unique_ptr<PipelineRuntime>> PipelineRuntime::Make(
    const Coordinator& coordinator, std::vector<std::unique_ptr<StageLink>> links,
    const TokenRows& rows, const PipelineOptions& options) {
  std::unique_ptr<PipelineRuntime> made(new PipelineRuntime(coordinator, rows, options));
  std::vector<std::unique_ptr<Stage>> stages;
  std::vector<DescribedStage> described;
  std::vector<std::future<Result<StageDescription>>> attaching;
  for (std::unique_ptr<StageLink>& link : links) {
    stages.push_back(std::make_unique<Stage>(std::move(link)));
    attaching.push_back(stages.back()->queue.Post([](StageLink& at) { return at.Attach(); }));
  }
  for (std::size_t i = 0; i < stages.size(); ++i) {
    auto attached = Wait(attaching[i]);
    if (!attached)
      return Err(attached.error().code, fmt::format("stage at {}: {}", stages[i]->queue.address(),
                                                    attached.error().message));
    stages[i]->description = *std::move(attached);
    stages[i]->attached = true;
    described.push_back(stages[i]->described());
  }
  SKIPPY_RETURN_IF_ERROR(Agree(coordinator, described));
  std::sort(stages.begin(), stages.end(), [](const auto& a, const auto& b) {
    return a->description.package.layers.begin < b->description.package.layers.begin;
  });
  made->stages_ = std::move(stages);
  made->info_ = Together(coordinator, described);
  made->lanes_.resize(made->info_.lanes);
  for (Lane& lane : made->lanes_) lane.shares.resize(made->stages_.size());
  return made;
}

std::vector<DescribedStage> PipelineRuntime::stages() const {
  std::vector<DescribedStage> described;
  for (const auto& stage : stages_) described.push_back(stage->described());
  return described;
}

// The stage's answers are this session's; where it was away, its lanes are empty now.
Status PipelineRuntime::Reach(std::size_t index) {
  Stage& stage = *stages_[index];
  if (stage.attached) return {};
  auto attaching = stage.queue.Post([](StageLink& link) { return link.Attach(); });
  const Result<StageDescription> description = Wait(attaching);
  if (!description) return tl::unexpected<Error>(stage.Named(description.error()));
  if (!SameStage(*description, stage.description))
    return Err(ErrorCode::kUnavailable,
               fmt::format("{} is another one now or was started with other settings: start it as "
                           "it was, or restart this server",
                           stage.Name()));
  stage.attached = true;
  for (Lane& lane : lanes_) lane.shares[index] = {};
  return {};
}

Status PipelineRuntime::ReachAll() {
  Status status;
  for (std::size_t i = 0; i < stages_.size() && status; ++i) status = Reach(i);
  return status;
}

Error PipelineRuntime::Failed(std::size_t index, const Error& error) {
  if (IsAway(error)) {
    // Whatever it holds now, nothing is known of it.
    stages_[index]->attached = false;
    for (Lane& lane : lanes_) lane.shares[index].place.reset();
  }
  return stages_[index]->Named(error);
}

// The place is that of a stage that holds all that was to be brought back.
bool PipelineRuntime::Restored(std::size_t index, Pos end, const LanePlace& place) const {
  const MemoryShape& shape = stages_[index]->shape();
  return place.end == end && (!shape.HasWindow() || place.window_from <= shape.WindowBegin(end));
}

// Waits for a restore that was not waited for yet.
Status PipelineRuntime::Settle(Lane& lane, std::size_t index) {
  Lane::Share& share = lane.shares[index];
  if (!share.restoring.valid()) return {};
  const Result<LanePlace> place = Wait(share.restoring);
  share.restoring = {};
  if (place && Restored(index, lane.restored.end, *place)) {
    if (share.place) share.place = *place;
    return {};
  }
  share.place.reset();
  if (place || !IsAway(place.error()))
    for (const PieceKey& piece : PiecesOf(lane.restored))
      if (stages_[index]->Has(piece.component)) distrusted_.insert(piece);
  if (!place) return tl::unexpected<Error>(Failed(index, place.error()));
  return Err(
      ErrorCode::kInternal,
      fmt::format("{} restored {} tokens (a window from {}) instead of {}", stages_[index]->Name(),
                  place->end, place->window_from, lane.restored.end));
}

void PipelineRuntime::SettleAll(Lane& lane) {
  for (std::size_t i = 0; i < stages_.size(); ++i) std::ignore = Settle(lane, i);
}

// The same call to several stages at the same time; each answer that is no error is taken. Waits
// for all, and returns the last error.
template <class Call, class Take>
Status PipelineRuntime::Ask(const std::vector<std::size_t>& indices, Call call, Take take) {
  using Answer = std::invoke_result_t<Call, StageLink&, std::size_t>;
  std::vector<std::future<Answer>> answers;
  for (const std::size_t index : indices)
    answers.push_back(
        stages_[index]->queue.Post([&call, index](StageLink& link) { return call(link, index); }));
  Status status;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const Answer answer = Wait(answers[i]);
    if (answer) {
      take(indices[i], answer);
    } else {
      status = tl::unexpected<Error>(Failed(indices[i], answer.error()));
    }
  }
  return status;
}

// Of all stages; with a component, of those that have such state.
std::vector<std::size_t> PipelineRuntime::Indices(std::optional<Component> component) const {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < stages_.size(); ++i)
    if (!component || stages_[i]->Has(*component)) indices.push_back(i);
  return indices;
}

// Moves a lane of all stages; where one answers with an error its place is unknown.
template <class Call>
Status PipelineRuntime::Move(Lane& lane, Call call) {
  for (Lane::Share& share : lane.shares) share.place.reset();
  return Ask(
      Indices(), [&call](StageLink& link, std::size_t) { return call(link); },
      [&lane](std::size_t index, const Result<LanePlace>& place) {
        lane.shares[index].place = *place;
      });
}

Status PipelineRuntime::CheckLane(SeqId lane) const {
  if (lane.value >= lanes_.size())
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("lane {} does not exist: there are {}", lane.value, lanes_.size()));
  return {};
}

Pos PipelineRuntime::End(SeqId lane) const {
  if (!CheckLane(lane)) return 0;
  const Lane& held = lanes_[lane.value];
  const auto end = static_cast<Pos>(held.tokens.size());
  const bool all = std::all_of(held.shares.begin(), held.shares.end(), [&](const auto& share) {
    return share.place && share.place->end == end;
  });
  return all ? end : 0;
}

Pos PipelineRuntime::WindowHeldFrom(SeqId lane) const {
  if (!CheckLane(lane)) return 0;
  Pos from = 0;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const Lane::Share& share = lanes_[lane.value].shares[i];
    if (share.place && stages_[i]->shape().HasWindow())
      from = std::max(from, share.place->window_from);
  }
  return from;
}

Status PipelineRuntime::CheckItems(std::span<const runtime::DecodeItem> items) const {
  if (items.empty()) return Err(ErrorCode::kInvalidArgument, "decode: no items");
  for (const runtime::DecodeItem& item : items) {
    SKIPPY_RETURN_IF_ERROR(CheckLane(item.lane));
    if (item.tokens.empty()) return Err(ErrorCode::kInvalidArgument, "decode: no tokens");
    const Lane& lane = lanes_[item.lane.value];
    if (End(item.lane) != lane.tokens.size())
      return Err(ErrorCode::kUnavailable,
                 fmt::format("lane {} was lost by a stage: clear it", item.lane.value));
    if (item.pos != lane.tokens.size())
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("decode: position {} in lane {}, which ends at {}", item.pos,
                             item.lane.value, lane.tokens.size()));
  }
  return {};
}

// One stage's step: `rows` of all items in, what leaves it out.
Result<StageOutput> PipelineRuntime::DecodeAt(std::size_t index,
                                              std::span<const runtime::DecodeItem> items,
                                              std::span<const float> rows) {
  Stage& stage = *stages_[index];
  for (const runtime::DecodeItem& item : items)
    SKIPPY_RETURN_IF_ERROR(Settle(lanes_[item.lane.value], index));
  std::vector<runtime::RowsItem> steps;
  std::size_t at = 0;
  std::size_t tokens = 0;
  for (const runtime::DecodeItem& item : items) {
    const std::size_t values = item.tokens.size() * stage.description.input_width;
    steps.push_back({item.lane, item.pos, rows.subspan(at, values), item.want_logits});
    at += values;
    tokens += item.tokens.size();
  }
  auto call = stage.queue.Post([&steps](StageLink& link) { return link.Decode(steps); });
  Result<StageOutput> output = Wait(call);
  for (const runtime::DecodeItem& item : items) lanes_[item.lane.value].shares[index].place.reset();
  if (!output) return tl::unexpected<Error>(Failed(index, output.error()));
  const bool last = index + 1 == stages_.size();
  bool sound = output->lanes.size() == items.size() &&
               output->rows.size() == tokens * stage.description.output_width &&
               output->logits.size() == (last ? items.size() : 0);
  for (std::size_t i = 0; sound && i < items.size(); ++i) {
    const runtime::DecodeItem& item = items[i];
    sound = output->lanes[i].end == item.pos + item.tokens.size() &&
            (!last || output->logits[i].size() == (item.want_logits ? info_.vocab : 0));
  }
  if (!sound)
    return Err(ErrorCode::kInternal,
               fmt::format("{} answered something else than it was asked for", stage.Name()));
  for (std::size_t i = 0; i < items.size(); ++i)
    lanes_[items[i].lane.value].shares[index].place = output->lanes[i];
  return output;
}

ActivationPlace PipelineRuntime::InputOf(std::size_t index, const Namespace& ns) const {
  const StageDescription& stage = stages_[index]->description;
  return {ns, stage.package.layers.begin, stage.input_width};
}

// What enters a stage: the text of each item goes up to its step's end.
void PipelineRuntime::KeepActivations(std::size_t index, std::span<const runtime::DecodeItem> items,
                                      std::span<const float> rows) {
  if (!activations_.on()) return;
  std::size_t at = 0;
  for (const runtime::DecodeItem& item : items) {
    const Lane& lane = lanes_[item.lane.value];
    const ActivationPlace place = InputOf(index, lane.ns);
    std::vector<Token> text = lane.tokens;
    text.insert(text.end(), item.tokens.begin(), item.tokens.end());
    const std::size_t values = item.tokens.size() * place.width;
    activations_.Put(place, text, {item.pos, static_cast<Pos>(text.size())},
                     rows.subspan(at, values));
    at += values;
  }
}

Status PipelineRuntime::Decode(std::span<const runtime::DecodeItem> items) {
  logits_.clear();
  SKIPPY_RETURN_IF_ERROR(CheckItems(items));
  SKIPPY_RETURN_IF_ERROR(ReachAll());
  SKIPPY_RETURN_IF_ERROR(CheckItems(items));  // a stage that was away has lost its lanes
  std::vector<Token> tokens;
  for (const runtime::DecodeItem& item : items)
    tokens.insert(tokens.end(), item.tokens.begin(), item.tokens.end());
  std::vector<float> rows(tokens.size() * rows_.width());
  SKIPPY_RETURN_IF_ERROR(rows_.Rows(tokens, rows));
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    SKIPPY_TRY(StageOutput output, DecodeAt(i, items, rows));
    rows = std::move(output.rows);
    if (i + 1 < stages_.size()) KeepActivations(i + 1, items, rows);
    logits_ = std::move(output.logits);
  }
  for (const runtime::DecodeItem& item : items) {
    std::vector<Token>& held = lanes_[item.lane.value].tokens;
    held.insert(held.end(), item.tokens.begin(), item.tokens.end());
  }
  return {};
}

std::span<const float> PipelineRuntime::Logits(std::size_t item) {
  if (item >= logits_.size()) return {};
  return logits_[item];
}

bool PipelineRuntime::Truncate(SeqId lane, Pos end) {
  if (!CheckLane(lane)) return false;
  Lane& held = lanes_[lane.value];
  const auto length = static_cast<Pos>(held.tokens.size());
  if (End(lane) != length || end > length) return false;
  if (end == length) return true;
  if (end == 0) {
    Clear(lane);
    return true;
  }
  if (info_.policy == PayloadPolicy::kOff || info_.shape.HasSnapshot()) return false;
  SettleAll(held);
  if (info_.shape.HasWindow() && WindowHeldFrom(lane) > info_.shape.WindowBegin(end)) return false;
  if (!ReachAll() || End(lane) != length) return false;
  std::ignore = Move(held, [lane, end](StageLink& link) { return link.Truncate(lane, end); });
  held.tokens.resize(end);
  return End(lane) == end;
}

void PipelineRuntime::Clear(SeqId lane) {
  if (!CheckLane(lane)) return;
  Lane& held = lanes_[lane.value];
  SettleAll(held);
  held.tokens.clear();
  std::vector<std::pair<std::size_t, std::future<Status>>> calls;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const bool empty = held.shares[i].place && held.shares[i].place->end == 0;
    // One that is away is attached to by the next call, which empties all its lanes.
    if (empty || !stages_[i]->attached) continue;
    calls.emplace_back(
        i, stages_[i]->queue.Post([lane](StageLink& link) { return link.Clear(lane); }));
  }
  for (auto& [index, call] : calls) {
    const Status cleared = Wait(call);
    held.shares[index].place.reset();
    if (cleared) {
      held.shares[index].place = LanePlace{};
    } else {
      // A stage that cannot empty a lane is not gone on with.
      std::ignore = Failed(index, {ErrorCode::kUnavailable, cleared.error().message});
    }
  }
}

Status PipelineRuntime::Copy(SeqId from, SeqId to) {
  SKIPPY_RETURN_IF_ERROR(CheckLane(from));
  SKIPPY_RETURN_IF_ERROR(CheckLane(to));
  Lane& source = lanes_[from.value];
  Lane& target = lanes_[to.value];
  if (from == to || !target.tokens.empty() || End(to) != 0)
    return Err(ErrorCode::kInvalidArgument, fmt::format("copy: lane {} is not empty", to.value));
  if (End(from) != source.tokens.size())
    return Err(ErrorCode::kUnavailable, fmt::format("copy: lane {} was lost", from.value));
  if (source.tokens.empty()) return {};
  SettleAll(source);
  SKIPPY_RETURN_IF_ERROR(ReachAll());
  if (End(from) != source.tokens.size())
    return Err(ErrorCode::kUnavailable, fmt::format("copy: lane {} was lost", from.value));
  Status status = Move(target, [from, to](StageLink& link) { return link.Copy(from, to); });
  target.tokens = source.tokens;
  if (status && End(to) != target.tokens.size())
    status = Err(ErrorCode::kInternal, "copy: the stages hold different lengths");
  if (!status) Clear(to);
  return status;
}

Status PipelineRuntime::Keep(SeqId lane, const PieceKey& piece) {
  SKIPPY_RETURN_IF_ERROR(ReachAll());
  if (piece.positions.end > End(lane))
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("export: rows up to {} of lane {}, which ends at {}",
                           piece.positions.end, lane.value, End(lane)));
  const Status status = Ask(
      Indices(piece.component),
      [lane, &piece](StageLink& link, std::size_t) { return link.Keep(lane, piece); },
      [](std::size_t, const Status&) {});
  if (status) distrusted_.erase(piece);
  return status;
}

Status PipelineRuntime::ExportRows(SeqId lane, Component component, PosRange positions,
                                   MutableByteSpan out) {
  SKIPPY_RETURN_IF_ERROR(CheckLane(lane));
  const bool known = component == Component::kKv       ? info_.shape.HasKv()
                     : component == Component::kWindow ? info_.shape.HasWindow()
                                                       : false;
  if (!known) return Err(ErrorCode::kUnsupported, "export: this model has no such rows");
  if (positions.empty() || positions.end > End(lane) ||
      (component == Component::kWindow && positions.begin < WindowHeldFrom(lane)))
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("export: rows [{}, {}) of lane {}, which ends at {}", positions.begin,
                           positions.end, lane.value, End(lane)));
  if (out.size() != positions.size() * kKeyBytes)
    return Err(ErrorCode::kInvalidArgument, fmt::format("export: {} bytes for {} rows of {}",
                                                        out.size(), positions.size(), kKeyBytes));
  const Lane& held = lanes_[lane.value];
  const PieceKey piece{PieceName(held.ns, TokenSpan(held.tokens).first(positions.end)), component,
                       positions};
  SKIPPY_RETURN_IF_ERROR(Keep(lane, piece));
  for (std::size_t row = 0; row < positions.size(); ++row)
    WriteKey(piece, out.subspan(row * kKeyBytes, kKeyBytes));
  return {};
}

Status PipelineRuntime::ExportSnapshot(SeqId lane, MutableByteSpan out) {
  SKIPPY_RETURN_IF_ERROR(CheckLane(lane));
  if (!info_.shape.HasSnapshot())
    return Err(ErrorCode::kUnsupported, "export: this model has no snapshots");
  if (out.size() != kKeyBytes)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("export: {} bytes for a snapshot of {}", out.size(), kKeyBytes));
  const Pos end = End(lane);
  if (end == 0)
    return Err(ErrorCode::kInvalidArgument, fmt::format("export: lane {} is empty", lane.value));
  const Lane& held = lanes_[lane.value];
  const PieceKey piece{PieceName(held.ns, held.tokens), Component::kSnapshot, {end, end}};
  SKIPPY_RETURN_IF_ERROR(Keep(lane, piece));
  WriteKey(piece, out);
  return {};
}

StageRestore PipelineRuntime::ShareOf(const StageRestore& restore, std::size_t index) const {
  const Stage& stage = *stages_[index];
  StageRestore share;
  share.lane = restore.lane;
  share.end = restore.end;
  if (stage.Has(Component::kKv)) share.kv = restore.kv;
  if (stage.Has(Component::kWindow)) share.window = restore.window;
  if (stage.Has(Component::kSnapshot)) share.snapshot = restore.snapshot;
  return share;
}

Status PipelineRuntime::CheckImport(const runtime::ImportRequest& request) const {
  if (info_.policy == PayloadPolicy::kOff) return Err(ErrorCode::kUnsupported, info_.policy_reason);
  if (request.end > info_.context)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("import: {} positions into a lane of {}", request.end, info_.context));
  if (request.tokens.size() != request.end)
    return Err(ErrorCode::kInvalidArgument, fmt::format("import: {} tokens for {} positions",
                                                        request.tokens.size(), request.end));
  const bool rows = request.end == 0 || (info_.shape.HasKv() != request.kv.empty() &&
                                         info_.shape.HasWindow() != request.window.empty() &&
                                         info_.shape.HasSnapshot() != request.snapshot.empty());
  if (!rows)
    return Err(ErrorCode::kInvalidArgument, "import: not the components that this model has");
  return {};
}

Status PipelineRuntime::Import(const runtime::ImportRequest& request) {
  SKIPPY_RETURN_IF_ERROR(CheckLane(request.lane));
  Clear(request.lane);
  SKIPPY_RETURN_IF_ERROR(CheckImport(request));
  if (request.end == 0) return {};
  SKIPPY_TRY(StageRestore restore, RestoreOf(request));
  SKIPPY_RETURN_IF_ERROR(ReachAll());
  Lane& lane = lanes_[request.lane.value];
  lane.restored = std::move(restore);
  lane.tokens.assign(request.tokens.begin(), request.tokens.end());
  const Pos window_from = request.window.empty() ? 0 : request.window.front().positions.begin;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    lane.shares[i].restoring = stages_[i]->queue.Post(
        [this, i, share = ShareOf(lane.restored, i), ns = lane.ns, text = lane.tokens](
            StageLink& link) { return RestoreOrRebuild(i, link, share, ns, text); });
    // Until it is known better, which is before the stage is asked to go on from there.
    lane.shares[i].place = LanePlace{request.end, window_from};
  }
  const Status first = Settle(lane, 0);
  if (!first) Clear(request.lane);
  return first;
}

// Of the pieces, those that each stage should have and does not, or failed to bring back.
Result<std::vector<std::set<PieceKey>>> PipelineRuntime::Lacking(const std::set<PieceKey>& pieces) {
  SKIPPY_RETURN_IF_ERROR(ReachAll());
  std::vector<std::vector<PieceKey>> asked(stages_.size());
  for (std::size_t i = 0; i < stages_.size(); ++i)
    for (const PieceKey& piece : pieces)
      if (stages_[i]->Has(piece.component)) asked[i].push_back(piece);
  std::vector<std::set<PieceKey>> lacking(stages_.size());
  SKIPPY_RETURN_IF_ERROR(Ask(
      Indices(), [&asked](StageLink& link, std::size_t index) { return link.Held(asked[index]); },
      [&](std::size_t index, const Result<std::vector<bool>>& held) {
        for (std::size_t j = 0; j < asked[index].size(); ++j)
          if (j >= held->size() || !(*held)[j] || distrusted_.contains(asked[index][j]))
            lacking[index].insert(asked[index][j]);
      }));
  return lacking;
}

// Up to where a stage could compute its state again from what enters it.
Pos PipelineRuntime::Rebuildable(std::size_t index, const Namespace& ns, TokenSpan text) {
  if (!activations_.on()) return 0;
  if (index == 0) return static_cast<Pos>(text.size());
  return activations_.Covered(InputOf(index, ns), text);
}

Result<runtime::MissingParts> PipelineRuntime::FindMissing(const runtime::ImportRequest& request) {
  SKIPPY_RETURN_IF_ERROR(CheckLane(request.lane));
  SKIPPY_RETURN_IF_ERROR(CheckImport(request));
  SKIPPY_TRY(const StageRestore restore, RestoreOf(request));
  SKIPPY_TRY(const std::vector<std::set<PieceKey>> lacking, Lacking(PiecesOf(restore)));
  std::vector<Pos> rebuildable(stages_.size());
  for (std::size_t i = 0; i < stages_.size(); ++i)
    if (!lacking[i].empty())
      rebuildable[i] = Rebuildable(i, lanes_[request.lane.value].ns, request.tokens);

  const auto gone = [&](const PieceKey& piece, Pos end) {
    for (std::size_t i = 0; i < stages_.size(); ++i)
      if (lacking[i].contains(piece) && end > rebuildable[i]) return true;
    return false;
  };
  runtime::MissingParts parts;
  const auto find = [&](std::span<const RowSlice> slices, Component component,
                        std::vector<std::size_t>& missing) {
    for (std::size_t i = 0; i < slices.size(); ++i) {
      std::vector<PieceSlice> own;
      std::ignore = AppendPieces(slices[i], component, own);  // RestoreOf has read it
      if (std::any_of(own.begin(), own.end(), [&](const PieceSlice& slice) {
            return gone(slice.piece, slice.positions.end);
          }))
        missing.push_back(i);
    }
  };
  find(request.kv, Component::kKv, parts.kv);
  find(request.window, Component::kWindow, parts.window);
  parts.snapshot = restore.snapshot && gone(*restore.snapshot, request.end);
  return parts;
}

// On the stage's own thread; touches nothing of the runtime but what is thread-safe.
Result<LanePlace> PipelineRuntime::RestoreOrRebuild(std::size_t index, StageLink& link,
                                                    const StageRestore& share, const Namespace& ns,
                                                    TokenSpan text) {
  Result<LanePlace> restored = link.Restore(share);
  if ((!restored && IsAway(restored.error())) ||
      (restored && Restored(index, share.end, *restored)) || !activations_.on())
    return restored;
  const ActivationPlace input = InputOf(index, ns);
  std::optional<std::vector<float>> rows;
  if (index > 0) {
    rows = activations_.Rows(input, text);
  } else {
    rows.emplace(text.size() * input.width);
    SKIPPY_RETURN_IF_ERROR(rows_.Rows(text, *rows));
  }
  if (!rows) return restored;
  SKIPPY_RETURN_IF_ERROR(link.Clear(share.lane));
  // In the chunks of a cold run.
  for (Pos begin = 0; begin < share.end; begin += info_.chunk) {
    const Pos end = std::min(share.end, begin + info_.chunk);
    const runtime::RowsItem step{
        share.lane, begin,
        std::span<const float>(*rows).subspan(std::size_t{begin} * input.width,
                                              std::size_t{end - begin} * input.width),
        false};
    SKIPPY_TRY(const StageOutput output, link.Decode({&step, 1}));
    if (output.lanes.size() != 1 || output.lanes.front().end != end)
      return Err(ErrorCode::kInternal, "the stage did not compute what it lost");
    restored = output.lanes.front();
  }
  // For the next time; what cannot be kept is computed once more then. Of a piece of another text
  // only the rows before the two part are here: it is not this lane's to keep.
  for (const PieceKey& piece : PiecesOf(share))
    if (piece.positions.end <= share.end &&
        piece.name == PieceName(ns, text.first(piece.positions.end)))
      std::ignore = link.Keep(share.lane, piece);
  return restored;
}

// Pieces of these names that all stages hold that have their component.
Result<std::set<PieceKey>> PipelineRuntime::FindInAll(const std::vector<Digest>& names) {
  SKIPPY_RETURN_IF_ERROR(ReachAll());
  std::map<PieceKey, std::size_t> holders;
  SKIPPY_RETURN_IF_ERROR(Ask(
      Indices(), [&names](StageLink& link, std::size_t) { return link.Find(names); },
      [&](std::size_t index, const Result<std::vector<PieceKey>>& found) {
        for (const PieceKey& piece : std::set<PieceKey>(found->begin(), found->end()))
          if (stages_[index]->Has(piece.component)) ++holders[piece];
      }));
  std::set<PieceKey> pieces;
  for (const auto& [piece, count] : holders)
    if (count == Indices(piece.component).size() && !distrusted_.contains(piece))
      pieces.insert(piece);
  return pieces;
}

Result<runtime::Recalled> PipelineRuntime::Recall(const runtime::RecallQuery& query) {
  if (info_.policy == PayloadPolicy::kOff) return Err(ErrorCode::kUnsupported, info_.policy_reason);
  SKIPPY_TRY(const std::set<PieceKey> pieces,
             PiecesOfText(query, [this](const auto& names) { return FindInAll(names); }));
  return ChooseRecall(info_.shape, pieces,
                      std::min<Pos>(query.max_boundary, static_cast<Pos>(query.tokens.size())));
}

Status PipelineRuntime::Forget() {
  activations_.DropAll();
  distrusted_.clear();
  // All that can be reached, also when one cannot.
  Status away;
  std::vector<std::size_t> reached;
  for (const std::size_t index : Indices()) {
    if (Status status = Reach(index)) {
      reached.push_back(index);
    } else {
      away = std::move(status);
    }
  }
  const Status forgotten = Ask(
      reached, [](StageLink& link, std::size_t) { return link.Forget(); },
      [](std::size_t, const Status&) {});
  return forgotten ? away : forgotten;
}

void PipelineRuntime::Bind(SeqId lane, const Namespace& ns) {
  if (CheckLane(lane)) lanes_[lane.value].ns = ns;
}

Result<std::vector<AdapterIdentity>> PipelineRuntime::ResolveAdapters(
    std::span<const std::pair<std::uint32_t, float>> adapters) const {
  if (!adapters.empty())
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("adapter {} does not exist: a model in stages has none",
                           adapters.front().first));
  return std::vector<AdapterIdentity>{};
}

Status PipelineRuntime::UseAdapters(std::span<const std::pair<std::uint32_t, float>> adapters) {
  SKIPPY_TRY([[maybe_unused]] const auto identities, ResolveAdapters(adapters));
  return {};
}

}  // namespace skippy::pipeline
