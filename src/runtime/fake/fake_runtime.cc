#include "runtime/fake/fake_runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace skippy::runtime::fake {
namespace {

// Whole parts of logits stay below it and fractions are multiples of 1/256 below 1/2: 24 bits, an
// exact float.
constexpr std::uint64_t kLogitRange = 65536;
constexpr std::uint64_t kDecodeFault = 1;
constexpr std::uint64_t kNanFault = 2;
constexpr std::uint64_t kImportFault = 3;
constexpr std::uint64_t kLieFault = 4;
constexpr std::uint64_t kExportFault = 5;

StateLayout MakeLayout(const FakeOptions& options) {
  StateLayout layout;
  layout.shape_noise = options.shape_noise;
  switch (options.shape) {
    case ShapeKind::kAttention: layout.kv.tensor_bytes = {8, 8, 6, 6}; break;
    case ShapeKind::kMla: layout.kv.tensor_bytes = {6}; break;
    case ShapeKind::kWindow:
      layout.kv.tensor_bytes = {8, 6};
      layout.window.tensor_bytes = {8, 6};
      break;
    case ShapeKind::kWindowOnly: layout.window.tensor_bytes = {10, 6}; break;
    case ShapeKind::kRecurrent: layout.snapshot_bytes = 40; break;
    case ShapeKind::kHybrid:
      layout.kv.tensor_bytes = {8, 6};
      layout.snapshot_bytes = 40;
      break;
    case ShapeKind::kHybridWindow:
      layout.kv.tensor_bytes = {8};
      layout.window.tensor_bytes = {6, 6};
      layout.snapshot_bytes = 24;
      break;
  }
  if (layout.snapshot_bytes > 0 && options.snapshot_bytes > layout.snapshot_bytes)
    layout.snapshot_padding = options.snapshot_bytes - layout.snapshot_bytes;
  if (!layout.window.tensor_bytes.empty()) {
    layout.window_tokens = options.window_tokens;
    layout.ring_rows = options.window_tokens + options.chunk;
  }
  return layout;
}

RuntimeInfo MakeInfo(const FakeOptions& options, const StateLayout& layout) {
  RuntimeInfo info;
  info.shape.kv_row_bytes = layout.kv.RowBytes();
  info.shape.window_row_bytes = layout.window.RowBytes();
  info.shape.window_tokens = layout.window_tokens;
  info.shape.snapshot_bytes = layout.snapshot_bytes + layout.snapshot_padding;
  info.shape.logits_bytes = options.vocab * sizeof(float);
  info.policy =
      layout.snapshot_bytes > 0 ? PayloadPolicy::kKvRecurrent : PayloadPolicy::kResidentKv;
  if (!options.exact_exports) {
    info.policy = PayloadPolicy::kOff;
    info.policy_reason = "exports of this memory are not exact";
  }
  info.lanes = options.lanes;
  info.context = options.context;
  info.chunk = options.chunk;
  info.vocab = options.vocab;
  info.identity.architecture = std::string(ShapeKindName(options.shape));
  info.identity.runtime_build = "fake";
  info.identity.context = options.context;
  info.identity.chunk = options.chunk;
  std::memcpy(info.identity.model.bytes.data(), &options.weights_seed, sizeof(std::uint64_t));
  return info;
}

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

}  // namespace

std::string_view ShapeKindName(ShapeKind kind) {
  switch (kind) {
    case ShapeKind::kAttention: return "attention";
    case ShapeKind::kMla: return "mla";
    case ShapeKind::kWindow: return "window";
    case ShapeKind::kWindowOnly: return "window_only";
    case ShapeKind::kRecurrent: return "recurrent";
    case ShapeKind::kHybrid: return "hybrid";
    case ShapeKind::kHybridWindow: return "hybrid_window";
  }
  return "unknown";
}

FakeRuntime::FakeRuntime(const FakeOptions& options, FaultPlan faults)
    : options_(options),
      layout_(MakeLayout(options)),
      info_(MakeInfo(options, layout_)),
      faults_(std::move(faults)),
      lanes_(options.lanes, LaneState(layout_)) {}

bool FakeRuntime::Fires(const FaultPlan::Trigger& trigger, std::uint64_t kind, std::uint64_t call) {
  const bool by_chance =
      trigger.permille > 0 && Mix(Mix(faults_.seed, kind), call) % 1000 < trigger.permille;
  const bool fires = by_chance || trigger.calls.contains(call);
  if (fires) ++counters_.faults;
  return fires;
}

Status FakeRuntime::CheckItems(std::span<const DecodeItem> items) const {
  if (items.empty()) return Err(ErrorCode::kInvalidArgument, "decode of nothing");
  for (const DecodeItem& item : items) {
    if (item.lane.value >= lanes_.size()) return Err(ErrorCode::kInvalidArgument, "no such lane");
    const Pos end = lanes_[item.lane.value].end();
    if (item.pos != end) {
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("decode at position {} of a lane that ends at {}", item.pos, end));
    }
    if (item.tokens.empty() || item.tokens.size() > options_.chunk) {
      return Err(ErrorCode::kInvalidArgument, fmt::format("{} tokens in a call, at most {}",
                                                          item.tokens.size(), options_.chunk));
    }
    if (items.size() > 1 && item.tokens.size() != 1) {
      return Err(ErrorCode::kInvalidArgument, "several sequences take one token each");
    }
    if (end + item.tokens.size() > options_.context) {
      return Err(ErrorCode::kResourceExhausted, "over the context");
    }
    for (const Token token : item.tokens) {
      if (token < 0 || static_cast<std::uint32_t>(token) >= options_.vocab) {
        return Err(ErrorCode::kInvalidArgument,
                   fmt::format("token {} is not in the vocabulary", token));
      }
    }
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (items[i].lane == items[j].lane) return Err(ErrorCode::kInvalidArgument, "a lane twice");
    }
  }
  return {};
}

// An unknown state: some tokens may be in, some rows may be half written.
void FakeRuntime::Scramble(std::span<const DecodeItem> items) {
  for (const DecodeItem& item : items) {
    const std::uint64_t dice = Mix(counters_.decode_calls, item.lane.value);
    const std::size_t done = dice % (item.tokens.size() + 1);
    for (std::size_t i = 0; i < done; ++i) {
      lanes_[item.lane.value].Step(item.tokens[i], Mix(dice), 0);
    }
  }
}

Status FakeRuntime::Decode(std::span<const DecodeItem> items) {
  SKIPPY_RETURN_IF_ERROR(CheckItems(items));
  ++counters_.decode_calls;
  counters_.largest_batch = std::max<std::uint64_t>(counters_.largest_batch, items.size());
  logits_.clear();
  if (Fires(faults_.fail_decode, kDecodeFault, counters_.decode_calls)) {
    Scramble(items);
    return Err(ErrorCode::kInternal, "injected decode failure");
  }
  const bool nan = Fires(faults_.nan_decode, kNanFault, counters_.decode_calls);
  logits_.resize(items.size());
  const std::uint64_t salt = Mix(options_.weights_seed, adapter_salt_);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::uint64_t shape = Mix(items.size(), items[i].tokens.size());
    DualHash hash;
    for (const Token token : items[i].tokens) {
      hash = lanes_[items[i].lane.value].Step(token, salt, shape);
    }
    counters_.tokens_evaluated += items[i].tokens.size();
    if (!items[i].want_logits) continue;
    WriteLogits(hash, logits_[i]);
    if (nan)
      std::fill(logits_[i].begin(), logits_[i].end(), std::numeric_limits<float>::quiet_NaN());
  }
  return {};
}

void FakeRuntime::WriteLogits(const DualHash& hash, std::vector<float>& out) const {
  out.resize(options_.vocab);
  const std::uint64_t steps = kLogitRange / options_.vocab;
  for (std::uint32_t i = 0; i < options_.vocab; ++i) {
    // No two whole parts are equal, so low bits never decide between tokens.
    const std::uint64_t whole = (Mix(hash.high, i) % steps) * options_.vocab + i;
    const std::uint64_t fraction = Mix(hash.low, i) % 128;
    out[i] = static_cast<float>(whole) + static_cast<float>(fraction) / 256.0F;
  }
}

std::span<const float> FakeRuntime::Logits(std::size_t item) {
  if (item >= logits_.size()) return {};
  return logits_[item];
}

Pos FakeRuntime::End(SeqId lane) const { return lanes_[lane.value].end(); }

Pos FakeRuntime::WindowHeldFrom(SeqId lane) const { return lanes_[lane.value].window_held_from(); }

bool FakeRuntime::Truncate(SeqId lane, Pos end) {
  LaneState& state = lanes_[lane.value];
  if (end == state.end()) return true;
  if (end > state.end()) return false;
  if (end == 0) {
    state.Clear();
    return true;
  }
  if (info_.shape.HasSnapshot()) return false;
  if (info_.shape.HasWindow() && state.window_held_from() > info_.shape.WindowBegin(end)) {
    return false;
  }
  state.Truncate(end);
  return true;
}

void FakeRuntime::Clear(SeqId lane) { lanes_[lane.value].Clear(); }

Status FakeRuntime::Copy(SeqId from, SeqId to) {
  if (!options_.can_copy) return Err(ErrorCode::kUnsupported, "no sequence copy");
  if (lanes_[to.value].end() != 0) return Err(ErrorCode::kInvalidArgument, "copy into a full lane");
  ++counters_.copies;
  lanes_[to.value] = lanes_[from.value];
  return {};
}

Status FakeRuntime::ExportRows(SeqId lane, Component component, PosRange positions,
                               MutableByteSpan out) {
  const LaneState& state = lanes_[lane.value];
  const bool window = component == Component::kWindow;
  const std::uint64_t row_bytes = window ? info_.shape.window_row_bytes : info_.shape.kv_row_bytes;
  if ((!window && component != Component::kKv) || row_bytes == 0) {
    return Err(ErrorCode::kUnsupported, "this memory has no such rows");
  }
  if (positions.empty() || positions.end > state.end() ||
      (window && positions.begin < state.window_held_from())) {
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("rows [{}, {}) are not held", positions.begin, positions.end));
  }
  if (out.size() != positions.size() * row_bytes) {
    return Err(ErrorCode::kInvalidArgument, "export buffer of the wrong size");
  }
  ++counters_.exports;
  if (window)
    state.ExportWindow(positions, out);
  else
    state.ExportKv(positions, out);
  if (Fires(faults_.fail_export, kExportFault, counters_.exports)) {
    std::fill(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(out.size() / 2),
              std::byte{0xBD});
    return Err(ErrorCode::kInternal, "injected export failure");
  }
  counters_.rows_exported += positions.size();
  return {};
}

Status FakeRuntime::ExportSnapshot(SeqId lane, MutableByteSpan out) {
  const LaneState& state = lanes_[lane.value];
  if (state.SnapshotBytes() == 0)
    return Err(ErrorCode::kUnsupported, "this memory has no snapshot");
  if (out.size() != state.SnapshotBytes()) {
    return Err(ErrorCode::kInvalidArgument, "export buffer of the wrong size");
  }
  ++counters_.exports;
  if (Fires(faults_.fail_export, kExportFault, counters_.exports)) {
    return Err(ErrorCode::kInternal, "injected export failure");
  }
  state.ExportSnapshot(out);
  ++counters_.snapshots_exported;
  return {};
}

Status FakeRuntime::CheckImport(const ImportRequest& request) const {
  const MemoryShape& shape = info_.shape;
  if (request.lane.value >= lanes_.size()) return Err(ErrorCode::kInvalidArgument, "no such lane");
  if (request.end == 0 || request.end > options_.context || request.tokens.size() != request.end) {
    return Err(ErrorCode::kInvalidArgument, "import of a bad length");
  }
  const PosRange kv{0, shape.HasKv() ? request.end : 0};
  if (!Covers(request.kv, kv, shape.kv_row_bytes)) {
    return Err(ErrorCode::kInvalidArgument, "KV rows do not cover the import");
  }
  const PosRange window{shape.HasWindow() ? shape.WindowBegin(request.end) : 0,
                        shape.HasWindow() ? request.end : 0};
  if (!Covers(request.window, window, shape.window_row_bytes)) {
    return Err(ErrorCode::kInvalidArgument, "window rows do not cover the import");
  }
  if (request.snapshot.size() != shape.snapshot_bytes) {
    return Err(ErrorCode::kInvalidArgument, "snapshot of the wrong size");
  }
  return {};
}

Status FakeRuntime::Import(const ImportRequest& request) {
  if (request.lane.value < lanes_.size()) lanes_[request.lane.value].Clear();
  SKIPPY_RETURN_IF_ERROR(CheckImport(request));
  ++counters_.imports;
  if (Fires(faults_.fail_import, kImportFault, counters_.imports)) {
    return Err(ErrorCode::kInternal, "injected import failure");
  }
  LaneState& state = lanes_[request.lane.value];
  for (const RowSlice& slice : request.kv) {
    state.ImportKv(slice);
    counters_.rows_imported += slice.positions.size();
  }
  for (const RowSlice& slice : request.window) {
    state.ImportWindow(slice);
    counters_.rows_imported += slice.positions.size();
  }
  if (!request.snapshot.empty()) {
    state.ImportSnapshot(request.snapshot);
    ++counters_.snapshots_imported;
  }
  state.FinishImport(request.end);
  if (Fires(faults_.lie_import, kLieFault, counters_.imports)) {
    if (request.end > 1)
      state.Truncate(request.end - 1);
    else
      state.Clear();
  }
  return {};
}

Result<std::vector<AdapterIdentity>> FakeRuntime::ResolveAdapters(
    std::span<const std::pair<std::uint32_t, float>> adapters) const {
  std::vector<AdapterIdentity> identities;
  for (const auto& [index, scale] : adapters) {
    if (index >= options_.adapters) {
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("adapter {} is not loaded ({} are)", index, options_.adapters));
    }
    AdapterIdentity identity;
    identity.content.bytes[0] = static_cast<std::uint8_t>(index + 1);
    identity.scale = scale;
    identities.push_back(identity);
  }
  return identities;
}

Status FakeRuntime::UseAdapters(std::span<const std::pair<std::uint32_t, float>> adapters) {
  if (auto resolved = ResolveAdapters(adapters); !resolved) {
    return tl::unexpected<Error>(std::move(resolved).error());
  }
  adapter_salt_ = 0;
  for (const auto& [index, scale] : adapters) {
    if (scale == 0.0F) continue;  // adds nothing to the weights
    adapter_salt_ = Mix(adapter_salt_, Mix(index + 1, std::bit_cast<std::uint32_t>(scale)));
  }
  return {};
}

}  // namespace skippy::runtime::fake
