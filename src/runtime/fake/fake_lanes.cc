#include "runtime/fake/fake_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace skippy::runtime::fake {
namespace {

bool Covers(std::span<const RowSlice> slices, PosRange wanted, std::uint64_t row_bytes) {
  Pos at = wanted.begin;
  for (const RowSlice& slice : slices) {
    if (slice.positions.begin != at || slice.positions.empty()) return false;
    if (slice.block.size() != slice.block_rows * row_bytes) return false;
    if (slice.first_row + slice.positions.size() > slice.block_rows) return false;
    at = slice.positions.end;
  }
  return at == wanted.end;
}

// A recurrent state as two tensors, as llama.cpp has them.
std::vector<std::uint32_t> SnapshotTensors(const StateLayout& layout) {
  const std::uint32_t bytes = layout.snapshot_bytes + layout.snapshot_padding;
  if (bytes == 0) return {};
  const std::uint32_t first = bytes / 3;
  return {first, bytes - first};
}

}  // namespace

MemoryShape ShapeOf(std::span<const StateLayout> layers) {
  MemoryShape shape;
  for (const StateLayout& layer : layers) {
    shape.kv_row_bytes += layer.kv.RowBytes();
    shape.window_row_bytes += layer.window.RowBytes();
    shape.window_tokens = std::max(shape.window_tokens, layer.window_tokens);
    shape.snapshot_bytes += layer.snapshot_bytes + layer.snapshot_padding;
  }
  return shape;
}

FakeLanes::FakeLanes(const RuntimeInfo& info, std::span<const StateLayout> layers,
                     bool tensors_first, FaultPlan faults)
    : shape_(info.shape), context_(info.context), chunk_(info.chunk), faults_(std::move(faults)) {
  std::vector<std::vector<std::uint32_t>> kv;
  std::vector<std::vector<std::uint32_t>> window;
  std::vector<std::vector<std::uint32_t>> snapshot;
  for (const StateLayout& layer : layers) {
    kv.push_back(layer.kv.tensor_bytes);
    window.push_back(layer.window.tensor_bytes);
    snapshot.push_back(SnapshotTensors(layer));
  }
  kv_ = Arrange(kv, tensors_first);
  window_ = Arrange(window, tensors_first);
  snapshot_ = Arrange(snapshot, tensors_first);
  lanes_.assign(info.lanes, Lane(layers.begin(), layers.end()));
}

FakeLanes::Places FakeLanes::Arrange(std::span<const std::vector<std::uint32_t>> tensors,
                                     bool tensors_first) {
  struct Tensor {
    std::size_t layer;
    std::size_t index;
    std::uint64_t in_layer;
    std::uint64_t bytes;
  };
  std::vector<Tensor> order;
  for (std::size_t layer = 0; layer < tensors.size(); ++layer) {
    std::uint64_t in_layer = 0;
    for (std::size_t index = 0; index < tensors[layer].size(); ++index) {
      order.push_back({layer, index, in_layer, tensors[layer][index]});
      in_layer += tensors[layer][index];
    }
  }
  if (tensors_first)
    std::stable_sort(order.begin(), order.end(),
                     [](const Tensor& a, const Tensor& b) { return a.index < b.index; });
  Places places;
  std::uint64_t in_row = 0;
  for (const Tensor& tensor : order) {
    const bool goes_on = !places.empty() && places.back().layer == tensor.layer &&
                         places.back().in_layer + places.back().bytes == tensor.in_layer;
    if (goes_on)
      places.back().bytes += tensor.bytes;
    else
      places.push_back({tensor.layer, in_row, tensor.in_layer, tensor.bytes});
    in_row += tensor.bytes;
  }
  return places;
}

const FakeLanes::Places& FakeLanes::PlacesOf(Component component) const {
  static const Places kNone;
  switch (component) {
    case Component::kKv: return kv_;
    case Component::kWindow: return window_;
    case Component::kSnapshot: return snapshot_;
    case Component::kLogits: break;
  }
  return kNone;
}

std::vector<StatePart> FakeLanes::Parts(Component component) const {
  std::vector<StatePart> parts;
  for (const Place& place : PlacesOf(component))
    parts.push_back({static_cast<std::uint32_t>(place.layer), place.bytes});
  return parts;
}

std::uint64_t FakeLanes::LayerBytes(Component component, std::size_t layer) const {
  std::uint64_t bytes = 0;
  for (const Place& place : PlacesOf(component))
    if (place.layer == layer) bytes += place.bytes;
  return bytes;
}

// One layer's block of `rows` rows out of the block of all.
void FakeLanes::Gather(const Places& places, std::size_t layer, std::size_t rows, ByteSpan block,
                       MutableByteSpan out) const {
  for (const Place& place : places)
    if (place.layer == layer)
      std::memcpy(out.data() + rows * place.in_layer, block.data() + rows * place.in_row,
                  rows * place.bytes);
}

void FakeLanes::Scatter(const Places& places, std::size_t layer, std::size_t rows, ByteSpan part,
                        MutableByteSpan block) const {
  for (const Place& place : places)
    if (place.layer == layer)
      std::memcpy(block.data() + rows * place.in_row, part.data() + rows * place.in_layer,
                  rows * place.bytes);
}

bool FakeLanes::Fires(Fault fault, std::uint64_t call) {
  const bool fires = fake::Fires(faults_, fault, call);
  if (fires) ++counters_.faults;
  return fires;
}

Status FakeLanes::CheckSteps(std::span<const FakeStep> steps) const {
  if (steps.empty()) return Err(ErrorCode::kInvalidArgument, "decode of nothing");
  for (const FakeStep& step : steps) {
    if (step.lane.value >= lanes_.size()) return Err(ErrorCode::kInvalidArgument, "no such lane");
    const Pos end = End(step.lane);
    if (step.pos != end) {
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("decode at position {} of a lane that ends at {}", step.pos, end));
    }
    if (step.tokens == 0 || step.tokens > chunk_) {
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("{} tokens in a call, at most {}", step.tokens, chunk_));
    }
    if (steps.size() > 1 && step.tokens != 1) {
      return Err(ErrorCode::kInvalidArgument, "several sequences take one token each");
    }
    if (end + step.tokens > context_) {
      return Err(ErrorCode::kResourceExhausted, "over the context");
    }
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (steps[i].lane == steps[j].lane) return Err(ErrorCode::kInvalidArgument, "a lane twice");
    }
  }
  return {};
}

// An unknown state: some tokens may be in, some rows may be half written.
void FakeLanes::Scramble(std::span<const FakeStep> steps) {
  for (const FakeStep& step : steps) {
    const std::uint64_t dice = Mix(counters_.decode_calls, step.lane.value);
    const std::size_t done = dice % (step.tokens + 1);
    for (LaneState& layer : lanes_[step.lane.value])
      for (std::size_t i = 0; i < done; ++i) layer.Step(0, Mix(dice), 0);
  }
}

Result<bool> FakeLanes::BeginDecode(std::span<const FakeStep> steps) {
  SKIPPY_RETURN_IF_ERROR(CheckSteps(steps));
  ++counters_.decode_calls;
  counters_.largest_batch = std::max<std::uint64_t>(counters_.largest_batch, steps.size());
  if (Fires(Fault::kDecode, counters_.decode_calls)) {
    Scramble(steps);
    return Err(ErrorCode::kInternal, "injected decode failure");
  }
  for (const FakeStep& step : steps) counters_.tokens_evaluated += step.tokens;
  return Fires(Fault::kNan, counters_.decode_calls);
}

Pos FakeLanes::WindowHeldFrom(SeqId lane) const {
  Pos from = 0;
  for (const LaneState& layer : lanes_[lane.value]) from = std::max(from, layer.window_held_from());
  return from;
}

bool FakeLanes::Truncate(SeqId lane, Pos end) {
  if (end == End(lane)) return true;
  if (end > End(lane)) return false;
  if (end == 0) {
    Clear(lane);
    return true;
  }
  if (shape_.HasSnapshot()) return false;
  if (shape_.HasWindow() && WindowHeldFrom(lane) > shape_.WindowBegin(end)) return false;
  for (LaneState& layer : lanes_[lane.value]) layer.Truncate(end);
  return true;
}

void FakeLanes::Clear(SeqId lane) {
  for (LaneState& layer : lanes_[lane.value]) layer.Clear();
}

Status FakeLanes::Copy(SeqId from, SeqId to) {
  if (End(to) != 0) return Err(ErrorCode::kInvalidArgument, "copy into a full lane");
  ++counters_.copies;
  lanes_[to.value] = lanes_[from.value];
  return {};
}

Status FakeLanes::ExportRows(SeqId lane, Component component, PosRange positions,
                             MutableByteSpan out) {
  const bool window = component == Component::kWindow;
  const std::uint64_t row_bytes = window ? shape_.window_row_bytes : shape_.kv_row_bytes;
  if ((!window && component != Component::kKv) || row_bytes == 0) {
    return Err(ErrorCode::kUnsupported, "this memory has no such rows");
  }
  if (positions.empty() || positions.end > End(lane) ||
      (window && positions.begin < WindowHeldFrom(lane))) {
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("rows [{}, {}) are not held", positions.begin, positions.end));
  }
  if (out.size() != positions.size() * row_bytes) {
    return Err(ErrorCode::kInvalidArgument, "export buffer of the wrong size");
  }
  ++counters_.exports;
  const Lane& layers = lanes_[lane.value];
  std::vector<std::byte> part;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    part.resize(positions.size() * LayerBytes(component, layer));
    if (part.empty()) continue;
    if (window)
      layers[layer].ExportWindow(positions, part);
    else
      layers[layer].ExportKv(positions, part);
    Scatter(PlacesOf(component), layer, positions.size(), part, out);
  }
  if (Fires(Fault::kExport, counters_.exports)) {
    std::fill(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(out.size() / 2),
              std::byte{0xBD});
    return Err(ErrorCode::kInternal, "injected export failure");
  }
  counters_.rows_exported += positions.size();
  return {};
}

Status FakeLanes::ExportSnapshot(SeqId lane, MutableByteSpan out) {
  if (!shape_.HasSnapshot()) return Err(ErrorCode::kUnsupported, "this memory has no snapshot");
  if (out.size() != shape_.snapshot_bytes) {
    return Err(ErrorCode::kInvalidArgument, "export buffer of the wrong size");
  }
  ++counters_.exports;
  if (Fires(Fault::kExport, counters_.exports)) {
    return Err(ErrorCode::kInternal, "injected export failure");
  }
  const Lane& layers = lanes_[lane.value];
  std::vector<std::byte> part;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    part.resize(layers[layer].SnapshotBytes());
    if (part.empty()) continue;
    layers[layer].ExportSnapshot(part);
    Scatter(snapshot_, layer, 1, part, out);
  }
  ++counters_.snapshots_exported;
  return {};
}

Status FakeLanes::CheckImport(const ImportRequest& request) const {
  if (request.lane.value >= lanes_.size()) return Err(ErrorCode::kInvalidArgument, "no such lane");
  if (request.end == 0 || request.end > context_ || request.tokens.size() != request.end) {
    return Err(ErrorCode::kInvalidArgument, "import of a bad length");
  }
  const PosRange kv{0, shape_.HasKv() ? request.end : 0};
  if (!Covers(request.kv, kv, shape_.kv_row_bytes)) {
    return Err(ErrorCode::kInvalidArgument, "KV rows do not cover the import");
  }
  const PosRange window{shape_.HasWindow() ? shape_.WindowBegin(request.end) : 0,
                        shape_.HasWindow() ? request.end : 0};
  if (!Covers(request.window, window, shape_.window_row_bytes)) {
    return Err(ErrorCode::kInvalidArgument, "window rows do not cover the import");
  }
  if (request.snapshot.size() != shape_.snapshot_bytes) {
    return Err(ErrorCode::kInvalidArgument, "snapshot of the wrong size");
  }
  return {};
}

void FakeLanes::ImportRows(Lane& lane, Component component, const RowSlice& slice) {
  std::vector<std::byte> part;
  for (std::size_t layer = 0; layer < lane.size(); ++layer) {
    part.resize(slice.block_rows * LayerBytes(component, layer));
    if (part.empty()) continue;
    Gather(PlacesOf(component), layer, slice.block_rows, slice.block, part);
    const RowSlice own{part, slice.block_rows, slice.first_row, slice.positions};
    if (component == Component::kWindow)
      lane[layer].ImportWindow(own);
    else
      lane[layer].ImportKv(own);
  }
  counters_.rows_imported += slice.positions.size();
}

Status FakeLanes::Import(const ImportRequest& request) {
  if (request.lane.value < lanes_.size()) Clear(request.lane);
  SKIPPY_RETURN_IF_ERROR(CheckImport(request));
  ++counters_.imports;
  if (Fires(Fault::kImport, counters_.imports)) {
    return Err(ErrorCode::kInternal, "injected import failure");
  }
  Lane& lane = lanes_[request.lane.value];
  for (const RowSlice& slice : request.kv) ImportRows(lane, Component::kKv, slice);
  for (const RowSlice& slice : request.window) ImportRows(lane, Component::kWindow, slice);
  std::vector<std::byte> part;
  for (std::size_t layer = 0; layer < lane.size(); ++layer) {
    part.resize(lane[layer].SnapshotBytes());
    if (part.empty()) continue;
    Gather(snapshot_, layer, 1, request.snapshot, part);
    lane[layer].ImportSnapshot(part);
  }
  if (!request.snapshot.empty()) ++counters_.snapshots_imported;
  for (LaneState& layer : lane) layer.FinishImport(request.end);
  if (Fires(Fault::kLie, counters_.imports)) {
    if (request.end > 1)
      for (LaneState& layer : lane) layer.Truncate(request.end - 1);
    else
      Clear(request.lane);
  }
  return {};
}

}  // namespace skippy::runtime::fake
