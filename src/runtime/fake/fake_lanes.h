// The lanes of a fake: state of one or several layers each, and everything of the port that moves
// it, with faults.
//
// Blocks hold the layers' blocks one after the other; with `tensors_first`, all layers' first
// tensors before all second ones, as runtimes with several caches have it.
//
// Threads and errors as the port (runtime/runtime.h) says.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/fake/fake_faults.h"
#include "runtime/fake/fake_state.h"
#include "runtime/runtime.h"
#include "runtime/stage_access.h"

namespace skippy::runtime::fake {

// Without the logits' bytes.
MemoryShape ShapeOf(std::span<const StateLayout> layers);

// A step of one lane: how many tokens.
struct FakeStep {
  SeqId lane;
  Pos pos = 0;
  std::size_t tokens = 0;
};

class FakeLanes {
 public:
  // `info`: of the runtime that has these lanes. `layers`: at least one.
  FakeLanes(const RuntimeInfo& info, std::span<const StateLayout> layers, bool tensors_first,
            FaultPlan faults);

  // Checks a pass and lets it fail where it should: the lanes are then scrambled. Else the caller
  // evaluates all of it. True: its logits shall be NaN.
  Result<bool> BeginDecode(std::span<const FakeStep> steps);
  LaneState& state(SeqId lane, std::size_t layer) { return lanes_[lane.value][layer]; }
  std::size_t lanes() const { return lanes_.size(); }

  Pos End(SeqId lane) const { return lanes_[lane.value].front().end(); }
  Pos WindowHeldFrom(SeqId lane) const;
  bool Truncate(SeqId lane, Pos end);
  void Clear(SeqId lane);
  Status Copy(SeqId from, SeqId to);
  Status ExportRows(SeqId lane, Component component, PosRange positions, MutableByteSpan out);
  Status ExportSnapshot(SeqId lane, MutableByteSpan out);
  Status Import(const ImportRequest& request);
  std::vector<StatePart> Parts(Component component) const;

  const Counters& counters() const { return counters_; }
  void SetFaults(FaultPlan faults) { faults_ = std::move(faults); }

 private:
  using Lane = std::vector<LaneState>;
  // A run of a layer's row in the row of all layers; bytes a row (of the snapshot).
  struct Place {
    std::size_t layer;
    std::uint64_t in_row;
    std::uint64_t in_layer;
    std::uint64_t bytes;
  };
  using Places = std::vector<Place>;

  static Places Arrange(std::span<const std::vector<std::uint32_t>> tensors, bool tensors_first);
  const Places& PlacesOf(Component component) const;
  void Gather(const Places& places, std::size_t layer, std::size_t rows, ByteSpan block,
              MutableByteSpan out) const;
  void Scatter(const Places& places, std::size_t layer, std::size_t rows, ByteSpan part,
               MutableByteSpan block) const;
  std::uint64_t LayerBytes(Component component, std::size_t layer) const;
  bool Fires(Fault fault, std::uint64_t call);
  Status CheckSteps(std::span<const FakeStep> steps) const;
  void Scramble(std::span<const FakeStep> steps);
  Status CheckImport(const ImportRequest& request) const;
  void ImportRows(Lane& lane, Component component, const RowSlice& slice);

  const MemoryShape shape_;
  const std::uint32_t context_;
  const std::uint32_t chunk_;
  Places kv_;
  Places window_;
  Places snapshot_;
  FaultPlan faults_;
  Counters counters_;
  std::vector<Lane> lanes_;
};

}  // namespace skippy::runtime::fake
