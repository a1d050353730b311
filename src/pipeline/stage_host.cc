#include "pipeline/stage_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <random>

namespace skippy::pipeline {
namespace {

// No pieces at all, or a snapshot: one "row".
std::uint32_t RowsOf(const PieceKey& piece) {
  return piece.component == Component::kSnapshot ? 1 : piece.positions.size();
}

std::uint64_t NewSession() {
  // Another number than any of before, also of a process that was here before: what was sent to
  // that one must not be taken for this one's.
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

}  // namespace

StageHost::StageHost(StagePackage package, runtime::Runtime& runtime, PieceStore& store,
                     std::vector<PieceSource*> peers)
    : package_(std::move(package)),
      runtime_(runtime),
      stage_(dynamic_cast<runtime::StageAccess&>(runtime)),
      store_(store),
      peers_(std::move(peers)),
      kv_(LayoutOf(package_, stage_.Parts(Component::kKv))),
      window_(LayoutOf(package_, stage_.Parts(Component::kWindow))),
      snapshot_(LayoutOf(package_, stage_.Parts(Component::kSnapshot))),
      lanes_(runtime.info().lanes) {}

StageHost::ComponentLayout StageHost::LayoutOf(const StagePackage& package,
                                               const std::vector<runtime::StatePart>& parts) {
  ComponentLayout layout;
  std::map<std::uint32_t, Layer> layers;
  for (const runtime::StatePart& part : parts) {
    const bool dummy = part.layer < package.dummies_in_front ||
                       part.layer - package.dummies_in_front >= package.layers.size();
    if (!dummy) {
      const std::uint32_t number = package.layers.begin + part.layer - package.dummies_in_front;
      Layer& layer = layers[number];
      layer.layer = number;
      layer.shares.emplace_back(layout.row_bytes, part.bytes);
      layer.bytes += part.bytes;
    }
    layout.row_bytes += part.bytes;
  }
  for (auto& [number, layer] : layers) {
    layout.numbers.push_back(number);
    layout.layers.push_back(std::move(layer));
  }
  return layout;
}

const StageHost::ComponentLayout& StageHost::Layout(Component component) const {
  if (component == Component::kKv) return kv_;
  return component == Component::kWindow ? window_ : snapshot_;
}

Status StageHost::Check(CallTicket ticket) {
  if (session_ == 0 || ticket.session != session_)
    return Err(ErrorCode::kUnavailable,
               fmt::format("stage {}: the session is over: the stage was restarted, or another "
                           "coordinator uses it now",
                           ToString(package_.layers)));
  if (ticket.number <= last_call_)
    return Err(ErrorCode::kCancelled, fmt::format("stage {}: a later call came before this one",
                                                  ToString(package_.layers)));
  last_call_ = ticket.number;
  return {};
}

Status StageHost::CheckLane(SeqId lane) const {
  if (lane.value < info().lanes) return {};
  return Err(ErrorCode::kInvalidArgument,
             fmt::format("lane {} does not exist: there are {}", lane.value, info().lanes));
}

LanePlace StageHost::PlaceOf(SeqId lane) const {
  return {runtime_.End(lane), runtime_.WindowHeldFrom(lane)};
}

void StageHost::ClearLane(SeqId lane) {
  runtime_.Clear(lane);
  lanes_[lane.value] = {};
}

void StageHost::UseLane(SeqId lane) {
  LanePieces& held = lanes_[lane.value];
  if (held.moment == store_.moment()) return;
  held.moment = store_.NextMoment();
  store_.Touch(held.pieces);
}

Result<StageDescription> StageHost::Attach() {
  const std::lock_guard lock(mutex_);
  session_ = NewSession();
  last_call_ = 0;
  for (std::uint32_t lane = 0; lane < info().lanes; ++lane) ClearLane(SeqId{lane});
  StageDescription description;
  description.package = package_;
  description.info = info();
  if (store_.max_bytes() == 0 && description.info.policy != PayloadPolicy::kOff) {
    description.info.policy = PayloadPolicy::kOff;
    description.info.policy_reason = "it has no memory to keep state in (--cache-ram)";
  }
  // State of dummies alone is none of the model's.
  MemoryShape& shape = description.info.shape;
  if (kv_.layers.empty()) shape.kv_row_bytes = 0;
  if (window_.layers.empty()) shape.window_row_bytes = shape.window_tokens = 0;
  if (snapshot_.layers.empty()) shape.snapshot_bytes = 0;
  description.input_width = stage_.input_width();
  description.output_width = stage_.output_width();
  description.session = session_;
  return description;
}

Result<StageOutput> StageHost::Decode(CallTicket ticket, std::span<const runtime::RowsItem> items) {
  const std::lock_guard lock(mutex_);
  SKIPPY_RETURN_IF_ERROR(Check(ticket));
  for (const runtime::RowsItem& item : items) SKIPPY_RETURN_IF_ERROR(CheckLane(item.lane));
  SKIPPY_RETURN_IF_ERROR(stage_.DecodeRows(items));
  StageOutput output;
  output.logits.resize(stage_.output_width() == 0 ? items.size() : 0);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (output.logits.empty()) {
      const std::span<const float> rows = stage_.OutputRows(i);
      output.rows.insert(output.rows.end(), rows.begin(), rows.end());
    } else if (items[i].want_logits) {
      const std::span<const float> logits = runtime_.Logits(i);
      output.logits[i].assign(logits.begin(), logits.end());
    }
    output.lanes.push_back(PlaceOf(items[i].lane));
  }
  return output;
}

Status StageHost::Clear(CallTicket ticket, SeqId lane) {
  const std::lock_guard lock(mutex_);
  SKIPPY_RETURN_IF_ERROR(Check(ticket));
  SKIPPY_RETURN_IF_ERROR(CheckLane(lane));
  ClearLane(lane);
  return {};
}

Result<LanePlace> StageHost::Truncate(CallTicket ticket, SeqId lane, Pos end) {
  const std::lock_guard lock(mutex_);
  SKIPPY_RETURN_IF_ERROR(Check(ticket));
  SKIPPY_RETURN_IF_ERROR(CheckLane(lane));
  if (!runtime_.Truncate(lane, end))
    return Err(ErrorCode::kUnsupported,
               fmt::format("lane {} cannot be cut to {} tokens", lane.value, end));
  std::erase_if(lanes_[lane.value].pieces,
                [end](const PieceKey& piece) { return piece.positions.end > end; });
  return PlaceOf(lane);
}

Result<LanePlace> StageHost::Copy(CallTicket ticket, SeqId from, SeqId to) {
  const std::lock_guard lock(mutex_);
  SKIPPY_RETURN_IF_ERROR(Check(ticket));
  SKIPPY_RETURN_IF_ERROR(CheckLane(from));
  SKIPPY_RETURN_IF_ERROR(CheckLane(to));
  SKIPPY_RETURN_IF_ERROR(runtime_.Copy(from, to));
  lanes_[to.value] = lanes_[from.value];
  return PlaceOf(to);
}

Status StageHost::PutLayers(const PieceKey& key, ByteSpan block, std::uint32_t rows) {
  std::vector<std::pair<std::uint32_t, LayerBytes>> layers;
  for (const Layer& layer : Layout(key.component).layers) {
    auto bytes = std::make_shared<std::vector<std::byte>>();
    bytes->reserve(layer.bytes * rows);
    for (const auto& [offset, size] : layer.shares) {
      const ByteSpan share = block.subspan(offset * rows, size * rows);
      bytes->insert(bytes->end(), share.begin(), share.end());
    }
    layers.emplace_back(layer.layer, std::move(bytes));
  }
  return store_.Put(key, layers);
}

Status StageHost::Keep(CallTicket ticket, SeqId lane, const PieceKey& piece) {
  const std::lock_guard lock(mutex_);
  SKIPPY_RETURN_IF_ERROR(Check(ticket));
  SKIPPY_RETURN_IF_ERROR(CheckLane(lane));
  const ComponentLayout& layout = Layout(piece.component);
  if (layout.layers.empty() || piece.component == Component::kLogits)
    return Err(ErrorCode::kUnsupported, "this stage has no such state");
  const bool snapshot = piece.component == Component::kSnapshot;
  if (snapshot ? piece.positions.end != runtime_.End(lane)
               : piece.positions.empty() || piece.positions.end > runtime_.End(lane))
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("the rows [{}, {}) of lane {}, which ends at {}", piece.positions.begin,
                           piece.positions.end, lane.value, runtime_.End(lane)));
  const std::uint32_t rows = RowsOf(piece);
  std::vector<std::byte> block(layout.row_bytes * rows);
  if (snapshot) {
    SKIPPY_RETURN_IF_ERROR(runtime_.ExportSnapshot(lane, block));
  } else {
    SKIPPY_RETURN_IF_ERROR(runtime_.ExportRows(lane, piece.component, piece.positions, block));
  }
  UseLane(lane);
  SKIPPY_RETURN_IF_ERROR(PutLayers(piece, block, rows));
  lanes_[lane.value].pieces.insert(piece);
  return {};
}

Result<std::vector<bool>> StageHost::Held(CallTicket ticket, std::span<const PieceKey> pieces) {
  const std::lock_guard lock(mutex_);
  SKIPPY_RETURN_IF_ERROR(Check(ticket));
  std::vector<bool> held;
  for (const PieceKey& piece : pieces)
    held.push_back(store_.Has(piece, Layout(piece.component).numbers));
  return held;
}

bool StageHost::Holds(const Digest& name) const {
  const std::vector<PieceKey> keys = store_.KeysOf(name);
  return !keys.empty() && std::all_of(keys.begin(), keys.end(), [&](const PieceKey& key) {
    return store_.Has(key, Layout(key.component).numbers);
  });
}

// Into the store, what peers have of the pieces that it lacks.
void StageHost::Pull(std::span<const Digest> names) {
  std::vector<std::uint32_t> layers;
  for (std::uint32_t i = package_.layers.begin; i < package_.layers.end; ++i) layers.push_back(i);
  for (PieceSource* peer : peers_) {
    std::vector<Digest> wanted;
    std::copy_if(names.begin(), names.end(), std::back_inserter(wanted),
                 [&](const Digest& name) { return !Holds(name); });
    if (wanted.empty()) return;
    // A peer that is away has nothing.
    const Result<std::vector<StoredLayer>> found = peer->Fetch(wanted, layers);
    if (!found) continue;
    store_.NextMoment();
    for (const StoredLayer& layer : *found) {
      const std::pair<std::uint32_t, LayerBytes> one{layer.layer, layer.bytes};
      if (!store_.Put(layer.key, {&one, 1})) break;
    }
  }
}

Result<std::vector<PieceKey>> StageHost::Find(CallTicket ticket, std::span<const Digest> names) {
  const std::lock_guard lock(mutex_);
  SKIPPY_RETURN_IF_ERROR(Check(ticket));
  Pull(names);
  std::vector<PieceKey> found;
  for (const Digest& name : names)
    for (const PieceKey& piece : store_.KeysOf(name))
      if (const auto& numbers = Layout(piece.component).numbers;
          !numbers.empty() && store_.Has(piece, numbers))
        found.push_back(piece);
  return found;
}

Status StageHost::Forget(CallTicket ticket) {
  const std::lock_guard lock(mutex_);
  SKIPPY_RETURN_IF_ERROR(Check(ticket));
  store_.DropAll();
  return {};
}

Result<std::vector<std::byte>> StageHost::TakeLayers(const PieceKey& key, std::uint32_t rows) {
  const ComponentLayout& layout = Layout(key.component);
  const auto found = store_.Find(key, layout.numbers);
  if (found.size() != layout.layers.size())
    return Err(ErrorCode::kNotFound, fmt::format("stage {} does not hold [{}, {}) of {} any more",
                                                 ToString(package_.layers), key.positions.begin,
                                                 key.positions.end, key.name.ShortHex()));
  std::vector<std::byte> block(layout.row_bytes * rows);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Layer& layer = layout.layers[i];
    const std::vector<std::byte>& bytes = *found[i].second;
    if (bytes.size() != layer.bytes * rows) {
      // Only a store that was filled by something else has such a piece: it is of no use.
      store_.Drop(key);
      return Err(ErrorCode::kNotFound, fmt::format("layer {} of a piece has {} bytes, not {}",
                                                   layer.layer, bytes.size(), layer.bytes * rows));
    }
    std::size_t from = 0;
    for (const auto& [offset, size] : layer.shares) {
      std::memcpy(block.data() + offset * rows, bytes.data() + from, size * rows);
      from += size * rows;
    }
  }
  return block;
}

Result<LanePlace> StageHost::RestoreChecked(const StageRestore& restore) {
  ClearLane(restore.lane);
  if (restore.end > info().context)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("restore: {} positions into a lane of {}", restore.end, info().context));
  LanePieces used{{}, store_.NextMoment()};
  std::vector<std::vector<std::byte>> blocks;
  const auto take = [&](const std::vector<PieceSlice>& pieces, Component component,
                        std::vector<RowSlice>& slices) -> Status {
    for (const PieceSlice& piece : pieces) {
      const PosRange whole = piece.piece.positions;
      if (piece.piece.component != component || piece.positions.empty() ||
          piece.positions.begin < whole.begin || piece.positions.end > whole.end)
        return Err(ErrorCode::kInvalidArgument, "restore: rows that are not the piece's");
      SKIPPY_TRY(std::vector<std::byte> block, TakeLayers(piece.piece, whole.size()));
      blocks.push_back(std::move(block));
      slices.push_back(
          {blocks.back(), whole.size(), piece.positions.begin - whole.begin, piece.positions});
      used.pieces.insert(piece.piece);
    }
    // What dummies alone have is zeros, and nobody names it.
    const ComponentLayout& layout = Layout(component);
    if (!pieces.empty() || !layout.layers.empty() || layout.row_bytes == 0) return {};
    const Pos begin = component == Component::kKv ? 0 : info().shape.WindowBegin(restore.end);
    const Pos rows = restore.end - begin;
    blocks.emplace_back(layout.row_bytes * rows);
    slices.push_back({blocks.back(), rows, 0, {begin, restore.end}});
    return {};
  };
  std::vector<RowSlice> kv;
  std::vector<RowSlice> window;
  SKIPPY_RETURN_IF_ERROR(take(restore.kv, Component::kKv, kv));
  SKIPPY_RETURN_IF_ERROR(take(restore.window, Component::kWindow, window));
  std::vector<std::byte> snapshot(snapshot_.layers.empty() ? snapshot_.row_bytes : 0);
  if (restore.snapshot) {
    if (restore.snapshot->component != Component::kSnapshot)
      return Err(ErrorCode::kInvalidArgument, "restore: the snapshot is none");
    SKIPPY_TRY(snapshot, TakeLayers(*restore.snapshot, 1));
    used.pieces.insert(*restore.snapshot);
  }
  // A stage never sees tokens.
  const std::vector<Token> tokens(restore.end, 0);
  SKIPPY_RETURN_IF_ERROR(
      runtime_.Import({restore.lane, restore.end, tokens, kv, window, snapshot}));
  lanes_[restore.lane.value] = std::move(used);
  return PlaceOf(restore.lane);
}

Result<LanePlace> StageHost::Restore(CallTicket ticket, const StageRestore& restore) {
  const std::lock_guard lock(mutex_);
  SKIPPY_RETURN_IF_ERROR(Check(ticket));
  SKIPPY_RETURN_IF_ERROR(CheckLane(restore.lane));
  Result<LanePlace> place = RestoreChecked(restore);
  if (!place) ClearLane(restore.lane);
  return place;
}

LocalLink::LocalLink(StageHost& host)
    : host_(host), address_("stage " + ToString(host.package().layers)) {}

Result<StageDescription> LocalLink::Attach() {
  SKIPPY_TRY(StageDescription description, host_.Attach());
  session_ = description.session;
  calls_ = 0;
  return description;
}
Result<StageOutput> LocalLink::Decode(std::span<const runtime::RowsItem> items) {
  return host_.Decode(Next(), items);
}
Status LocalLink::Clear(SeqId lane) { return host_.Clear(Next(), lane); }
Result<LanePlace> LocalLink::Truncate(SeqId lane, Pos end) {
  return host_.Truncate(Next(), lane, end);
}
Result<LanePlace> LocalLink::Copy(SeqId from, SeqId to) { return host_.Copy(Next(), from, to); }
Status LocalLink::Keep(SeqId lane, const PieceKey& piece) {
  return host_.Keep(Next(), lane, piece);
}
Result<std::vector<bool>> LocalLink::Held(std::span<const PieceKey> pieces) {
  return host_.Held(Next(), pieces);
}
Result<std::vector<PieceKey>> LocalLink::Find(std::span<const Digest> names) {
  return host_.Find(Next(), names);
}
Status LocalLink::Forget() { return host_.Forget(Next()); }
Result<LanePlace> LocalLink::Restore(const StageRestore& restore) {
  return host_.Restore(Next(), restore);
}

}  // namespace skippy::pipeline
