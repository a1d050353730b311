// PipelineRuntime: a model in stages as one runtime. Engine, cache and API do not know.
//
// Exports are names: each stage keeps its own layers' state (state_keeper.h). A record is visible
// when every stage has kept its part, since the cache commits after the last export. A stage that
// lost something, was restarted or says what is not true makes a shorter hit.
//
// Restores of later stages go on while the first one computes: Import returns when the first stage
// has its state. A later stage's failure then fails the next Decode, and what it failed to bring
// back counts as lost from there on.
//
// Threads: as runtime.h says; calls to stages are made by one thread a stage. Errors: kUnavailable
// when a stage is away: the lanes are then empty, and the next call attaches to it again. Cost: a
// round trip a stage for a step; rows of activations cross the coordinator.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "pipeline/activation_store.h"
#include "pipeline/agreement.h"
#include "pipeline/stage_link.h"
#include "pipeline/token_rows.h"
#include "runtime/runtime.h"
#include "runtime/state_keeper.h"
#include "skippy/result.h"

namespace skippy::pipeline {

struct PipelineOptions {
  // What left each stage is kept up to so many bytes, and a stage that lost its state computes it
  // again from there, alone; 0: it is lost to all. Such computing goes on within Import (of the
  // first stage) or the next Decode, and other lanes wait for it.
  std::uint64_t activation_bytes = 0;
};

class PipelineRuntime final : public runtime::Runtime, public runtime::StateKeeper {
 public:
  // Attaches to all stages, in whatever order they are given. `rows` must outlive the runtime.
  static Result<std::unique_ptr<PipelineRuntime>> Make(
      const Coordinator& coordinator, std::vector<std::unique_ptr<StageLink>> links,
      const TokenRows& rows, const PipelineOptions& options = {});
  ~PipelineRuntime() override;

  const runtime::RuntimeInfo& info() const override { return info_; }
  std::vector<DescribedStage> stages() const;  // by layers
  Status Decode(std::span<const runtime::DecodeItem> items) override;
  std::span<const float> Logits(std::size_t item) override;
  Pos End(SeqId lane) const override;
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

  void Bind(SeqId lane, const Namespace& ns) override;
  Result<runtime::MissingParts> FindMissing(const runtime::ImportRequest& request) override;
  Result<runtime::Recalled> Recall(const runtime::RecallQuery& query) override;
  Status Forget() override;

 private:
  struct Stage;
  struct Lane;

  PipelineRuntime(const Coordinator& coordinator, const TokenRows& rows,
                  const PipelineOptions& options);
  Status Reach(std::size_t index);
  Status ReachAll();
  Error Failed(std::size_t index, const Error& error);
  std::vector<std::size_t> Indices(std::optional<Component> component = std::nullopt) const;
  template <class Call, class Take>
  Status Ask(const std::vector<std::size_t>& indices, Call call, Take take);
  template <class Call>
  Status Move(Lane& lane, Call call);
  bool Restored(std::size_t index, Pos end, const LanePlace& place) const;
  Status Settle(Lane& lane, std::size_t index);
  void SettleAll(Lane& lane);
  Status CheckLane(SeqId lane) const;
  Status CheckItems(std::span<const runtime::DecodeItem> items) const;
  Status CheckImport(const runtime::ImportRequest& request) const;
  Result<StageOutput> DecodeAt(std::size_t index, std::span<const runtime::DecodeItem> items,
                               std::span<const float> rows);
  Status Keep(SeqId lane, const PieceKey& piece);
  Result<std::set<PieceKey>> FindInAll(const std::vector<Digest>& names);
  Result<std::vector<std::set<PieceKey>>> Lacking(const std::set<PieceKey>& pieces);
  ActivationPlace InputOf(std::size_t index, const Namespace& ns) const;
  Pos Rebuildable(std::size_t index, const Namespace& ns, TokenSpan text);
  void KeepActivations(std::size_t index, std::span<const runtime::DecodeItem> items,
                       std::span<const float> rows);
  Result<LanePlace> RestoreOrRebuild(std::size_t index, StageLink& link, const StageRestore& share,
                                     const Namespace& ns, TokenSpan text);
  StageRestore ShareOf(const StageRestore& restore, std::size_t index) const;

  const Coordinator coordinator_;
  const TokenRows& rows_;
  ActivationStore activations_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<Lane> lanes_;
  runtime::RuntimeInfo info_;
  std::vector<std::vector<float>> logits_;
  // Pieces that a stage said it holds and could not bring back; until they are kept anew.
  std::set<PieceKey> distrusted_;
};

}  // namespace skippy::pipeline
