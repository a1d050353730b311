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
#include <span>
#include <utility>
#include <vector>

#include "runtime/fake/fake_faults.h"
#include "runtime/fake/fake_lanes.h"
#include "runtime/fake/fake_shapes.h"
#include "runtime/full_state.h"
#include "runtime/runtime.h"

namespace skippy::runtime::fake {

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

class FakeRuntime final : public Runtime, public FullStateAccess {
 public:
  explicit FakeRuntime(const FakeOptions& options, FaultPlan faults = {});

  const RuntimeInfo& info() const override { return info_; }
  Status Decode(std::span<const DecodeItem> items) override;
  std::span<const float> Logits(std::size_t item) override;
  Pos End(SeqId lane) const override { return lanes_.End(lane); }
  Pos WindowHeldFrom(SeqId lane) const override { return lanes_.WindowHeldFrom(lane); }
  bool Truncate(SeqId lane, Pos end) override { return lanes_.Truncate(lane, end); }
  void Clear(SeqId lane) override { lanes_.Clear(lane); }
  Status Copy(SeqId from, SeqId to) override;
  Status ExportRows(SeqId lane, Component component, PosRange positions,
                    MutableByteSpan out) override {
    return lanes_.ExportRows(lane, component, positions, out);
  }
  Status ExportSnapshot(SeqId lane, MutableByteSpan out) override {
    return lanes_.ExportSnapshot(lane, out);
  }
  Status Import(const ImportRequest& request) override { return lanes_.Import(request); }
  Result<std::vector<AdapterIdentity>> ResolveAdapters(
      std::span<const std::pair<std::uint32_t, float>> adapters) const override;
  Status UseAdapters(std::span<const std::pair<std::uint32_t, float>> adapters) override;
  Result<std::vector<std::byte>> ExportFullState(SeqId lane) override;
  Status ImportFullState(SeqId lane, ByteSpan state) override;

  const Counters& counters() const { return lanes_.counters(); }
  void SetFaults(FaultPlan faults) { lanes_.SetFaults(std::move(faults)); }

 private:
  Status CheckTokens(std::span<const DecodeItem> items) const;

  const FakeOptions options_;
  const RuntimeInfo info_;
  FakeLanes lanes_;
  std::uint64_t adapter_salt_ = 0;
  std::vector<std::vector<float>> logits_;
};

}  // namespace skippy::runtime::fake
