// A runtime without a model: deterministic, in every memory shape, with faults on demand.
//
// What makes it an oracle: every row, snapshot and logit is a hash of all the state that a true
// model would read at that step (all append-only rows, the last window rows, the recurrent state,
// position, token, adapters). So a forgotten window row, a stale snapshot, a swapped page, a
// position off by one or a single flipped bit gives other tokens from there on. Tokens are small
// integers in the logits' whole part, so they survive the low-bit noise of `shape_noise`.
//
// Semantics are llama.cpp's: recurrent memory cannot be cut back; a window is a ring that forgets;
// a failed Decode leaves the lanes it touched in an unknown (here: deliberately scrambled) state.
//
// Threads and errors as the port (runtime/runtime.h) says.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/fake/fake_state.h"
#include "runtime/full_state.h"
#include "runtime/runtime.h"

namespace skippy::runtime::fake {

enum class ShapeKind : std::uint8_t {
  kAttention = 0,  // dense KV
  kMla,            // dense KV of narrow rows
  kWindow,         // full layers and sliding-window layers
  kWindowOnly,     // sliding-window layers alone
  kRecurrent,      // state only: a snapshot is the whole
  kHybrid,         // KV and recurrent state
  kHybridWindow,   // KV, window and recurrent state
};
inline constexpr int kShapeKindCount = 7;
std::string_view ShapeKindName(ShapeKind kind);

struct FakeOptions {
  ShapeKind shape = ShapeKind::kAttention;
  std::uint32_t lanes = 2;
  std::uint32_t context = 512;
  std::uint32_t chunk = 16;
  std::uint32_t vocab = 64;  // at most 1024, so that logits' whole parts stay exact floats
  std::uint32_t window_tokens =
      24;  // shapes with a window; the ring holds window_tokens + chunk rows
  // Shapes with a snapshot: its size, where a realistic one matters; 0: as small as the shape
  // allows
  std::uint32_t snapshot_bytes = 0;
  std::uint32_t adapters = 2;  // loaded ones, indices [0, adapters)
  bool shape_noise = false;    // low bits depend on tokens and lanes a call, as real kernels' do
  bool can_copy = true;
  bool exact_exports = true;  // false: a family that must be served with the cache off
  std::uint64_t weights_seed = 1;
};

// Which calls fail. Calls are counted from 1, each kind for itself. A call fails if its number is
// in the set, or by chance: permille of calls, drawn from the seed and the number.
struct FaultPlan {
  struct Trigger {
    std::set<std::uint64_t> calls;
    std::uint32_t permille = 0;
  };
  std::uint64_t seed = 0;
  Trigger fail_decode;
  Trigger nan_decode;   // succeeds, but all logits are NaN
  Trigger fail_import;  // the lane is empty afterwards
  Trigger lie_import;   // says success, but the lane ends one token early (or is empty)
  Trigger fail_export;  // rows or snapshot; the buffer is half written
};

struct Counters {
  std::uint64_t decode_calls = 0;
  std::uint64_t tokens_evaluated = 0;
  std::uint64_t imports = 0;
  std::uint64_t exports = 0;
  std::uint64_t rows_imported = 0;
  std::uint64_t rows_exported = 0;
  std::uint64_t snapshots_imported = 0;
  std::uint64_t snapshots_exported = 0;
  std::uint64_t copies = 0;
  std::uint64_t faults = 0;
  std::uint64_t largest_batch = 0;  // items in one Decode
};

class FakeRuntime final : public Runtime, public FullStateAccess {
 public:
  explicit FakeRuntime(const FakeOptions& options, FaultPlan faults = {});

  const RuntimeInfo& info() const override { return info_; }
  Status Decode(std::span<const DecodeItem> items) override;
  std::span<const float> Logits(std::size_t item) override;
  Pos End(SeqId lane) const override;
  Pos WindowHeldFrom(SeqId lane) const override;
  bool Truncate(SeqId lane, Pos end) override;
  void Clear(SeqId lane) override;
  Status Copy(SeqId from, SeqId to) override;
  Status ExportRows(SeqId lane, Component component, PosRange positions,
                    MutableByteSpan out) override;
  Status ExportSnapshot(SeqId lane, MutableByteSpan out) override;
  Status Import(const ImportRequest& request) override;
  Result<std::vector<AdapterIdentity>> ResolveAdapters(
      std::span<const std::pair<std::uint32_t, float>> adapters) const override;
  Status UseAdapters(std::span<const std::pair<std::uint32_t, float>> adapters) override;
  Result<std::vector<std::byte>> ExportFullState(SeqId lane) override;
  Status ImportFullState(SeqId lane, ByteSpan state) override;

  const Counters& counters() const { return counters_; }
  void SetFaults(FaultPlan faults) { faults_ = std::move(faults); }

 private:
  Status CheckItems(std::span<const DecodeItem> items) const;
  Status CheckImport(const ImportRequest& request) const;
  bool Fires(const FaultPlan::Trigger& trigger, std::uint64_t kind, std::uint64_t call);
  void Scramble(std::span<const DecodeItem> items);
  void WriteLogits(const DualHash& hash, std::vector<float>& out) const;

  const FakeOptions options_;
  const StateLayout layout_;
  RuntimeInfo info_;
  FaultPlan faults_;
  Counters counters_;
  std::uint64_t adapter_salt_ = 0;
  std::vector<LaneState> lanes_;
  std::vector<std::vector<float>> logits_;
};

}  // namespace skippy::runtime::fake
