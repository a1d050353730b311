// A stage of a fake model: a chain of layers, each with a memory of its own.
//
// An oracle as FakeRuntime is: what leaves a layer is a hash of all the state that a true layer
// would read at that step and of every bit of what entered it, so that a wrong byte in any layer
// of any stage shows in all rows and logits behind it. A layer's state depends on the model, its
// number there and the tokens, never on where the model is cut.
//
// Threads and errors as the port (runtime/runtime.h) and StageAccess say.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/fake/fake_faults.h"
#include "runtime/fake/fake_lanes.h"
#include "runtime/fake/fake_shapes.h"
#include "runtime/runtime.h"
#include "runtime/stage_access.h"

namespace skippy::runtime::fake {

struct FakeStageOptions {
  std::uint32_t lanes = 2;
  std::uint32_t context = 512;
  std::uint32_t chunk = 16;
  std::uint32_t vocab = 64;          // at most 1024
  std::uint32_t window_tokens = 24;  // of all layers with a window
  std::uint32_t width = 12;          // floats a row; with fewer than 8 rows may be equal by chance
  std::vector<ShapeKind> model;      // one entry a layer of the whole model
  std::uint32_t begin = 0;           // layers of this stage: [begin, end), not empty
  std::uint32_t end = 0;
  std::uint64_t weights_seed = 1;
  bool shape_noise = false;  // low bits depend on tokens and lanes a call, as real kernels' do
  // How blocks lie (fake_lanes.h): a layer then has several parts.
  bool tensors_first = false;
};

// FaultPlan::nan_decode: of the stage that gives logits alone.
class FakeStage final : public Runtime, public StageAccess {
 public:
  explicit FakeStage(const FakeStageOptions& options, FaultPlan faults = {});

  const RuntimeInfo& info() const override { return info_; }
  Status Decode(std::span<const DecodeItem> items) override;  // kUnsupported
  std::span<const float> Logits(std::size_t item) override;
  Pos End(SeqId lane) const override { return lanes_.End(lane); }
  Pos WindowHeldFrom(SeqId lane) const override { return lanes_.WindowHeldFrom(lane); }
  bool Truncate(SeqId lane, Pos end) override { return lanes_.Truncate(lane, end); }
  void Clear(SeqId lane) override { lanes_.Clear(lane); }
  Status Copy(SeqId from, SeqId to) override { return lanes_.Copy(from, to); }
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

  std::uint32_t input_width() const override { return options_.width; }
  std::uint32_t output_width() const override { return Last() ? 0 : options_.width; }
  Status DecodeRows(std::span<const RowsItem> items) override;
  std::vector<StatePart> Parts(Component component) const override {
    return lanes_.Parts(component);
  }
  std::span<const float> OutputRows(std::size_t item) const override;

  const Counters& counters() const { return lanes_.counters(); }
  void SetFaults(FaultPlan faults) { lanes_.SetFaults(std::move(faults)); }

 private:
  bool Last() const { return options_.end == options_.model.size(); }
  void Run(const RowsItem& item, std::size_t items, std::vector<float>& rows,
           std::vector<float>& logits);

  const FakeStageOptions options_;
  const RuntimeInfo info_;
  FakeLanes lanes_;
  std::vector<std::vector<float>> rows_;    // of each item; empty where logits leave
  std::vector<std::vector<float>> logits_;  // of each item; empty where not wanted
};

// What enters the first layer for tokens: rows that depend on the token alone.
class FakeRows {
 public:
  FakeRows(std::uint32_t width, std::uint32_t vocab) : width_(width), vocab_(vocab) {}
  std::uint32_t width() const { return width_; }
  std::uint32_t tokens() const { return vocab_; }
  // out.size() == tokens.size() * width(). kInvalidArgument: no such token.
  Status Rows(TokenSpan tokens, std::span<float> out) const;

 private:
  const std::uint32_t width_;
  const std::uint32_t vocab_;
};

}  // namespace skippy::runtime::fake
