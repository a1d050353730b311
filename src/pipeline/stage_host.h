// StageHost: one stage of a model in this process: a runtime that holds its layers, and the pieces
// that are kept of them.
//
// Several hosts of a process share one store. Threads: thread-safe; one call at a time is carried
// out. Errors: as stage_link.h and stage_access.h say. Cost: Keep and Restore copy the state twice
// (once between the runtime's pages and a block, once between the block and its layers).
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "pipeline/piece_source.h"
#include "pipeline/piece_store.h"
#include "pipeline/stage_link.h"
#include "runtime/runtime.h"
#include "runtime/stage_access.h"
#include "skippy/result.h"

namespace skippy::pipeline {

// A call's place: which session, and the how-manieth call of it.
struct CallTicket {
  std::uint64_t session = 0;
  std::uint64_t number = 0;
};

class StageHost {
 public:
  // `runtime` implements StageAccess too, and must outlive the host, as must the store and the
  // peers: whoever may have pieces that Find is asked for and the store lacks.
  StageHost(StagePackage package, runtime::Runtime& runtime, PieceStore& store,
            std::vector<PieceSource*> peers = {});

  const StagePackage& package() const { return package_; }
  const runtime::RuntimeInfo& info() const { return runtime_.info(); }

  Result<StageDescription> Attach();
  Result<StageOutput> Decode(CallTicket ticket, std::span<const runtime::RowsItem> items);
  Status Clear(CallTicket ticket, SeqId lane);
  Result<LanePlace> Truncate(CallTicket ticket, SeqId lane, Pos end);
  Result<LanePlace> Copy(CallTicket ticket, SeqId from, SeqId to);
  Status Keep(CallTicket ticket, SeqId lane, const PieceKey& piece);
  Result<std::vector<bool>> Held(CallTicket ticket, std::span<const PieceKey> pieces);
  Result<std::vector<PieceKey>> Find(CallTicket ticket, std::span<const Digest> names);
  Status Forget(CallTicket ticket);
  Result<LanePlace> Restore(CallTicket ticket, const StageRestore& restore);

 private:
  // A layer's share of a component's rows, as (offset, bytes) pairs of a row.
  struct Layer {
    std::uint32_t layer = 0;  // the whole model's number
    std::vector<std::pair<std::uint64_t, std::uint64_t>> shares;
    std::uint64_t bytes = 0;
  };
  struct ComponentLayout {
    std::uint64_t row_bytes = 0;
    std::vector<Layer> layers;  // ascending; without dummies
    std::vector<std::uint32_t> numbers;
  };
  // What is kept of what a lane holds. All of it is used whenever more is kept, so that under
  // pressure a text loses its end, not what it begins with.
  struct LanePieces {
    std::set<PieceKey> pieces;
    std::optional<std::uint64_t> moment;  // of the store, when they were used
  };
  static ComponentLayout LayoutOf(const StagePackage& package,
                                  const std::vector<runtime::StatePart>& parts);
  const ComponentLayout& Layout(Component component) const;

  Status Check(CallTicket ticket);  // mutex_ is held
  Status CheckLane(SeqId lane) const;
  LanePlace PlaceOf(SeqId lane) const;
  void ClearLane(SeqId lane);
  void UseLane(SeqId lane);
  bool Holds(const Digest& name) const;
  void Pull(std::span<const Digest> names);
  Status PutLayers(const PieceKey& key, ByteSpan block, std::uint32_t rows);
  // The block as the runtime exported it; dummies are zeros. kNotFound.
  Result<std::vector<std::byte>> TakeLayers(const PieceKey& key, std::uint32_t rows);
  Result<LanePlace> RestoreChecked(const StageRestore& restore);

  const StagePackage package_;
  runtime::Runtime& runtime_;
  runtime::StageAccess& stage_;
  PieceStore& store_;
  const std::vector<PieceSource*> peers_;
  const ComponentLayout kv_;
  const ComponentLayout window_;
  const ComponentLayout snapshot_;
  std::mutex mutex_;
  std::uint64_t session_ = 0;
  std::uint64_t last_call_ = 0;
  std::vector<LanePieces> lanes_;
};

// A host of this process as a link.
class LocalLink final : public StageLink {
 public:
  explicit LocalLink(StageHost& host);
  const std::string& address() const override { return address_; }
  Result<StageDescription> Attach() override;
  Result<StageOutput> Decode(std::span<const runtime::RowsItem> items) override;
  Status Clear(SeqId lane) override;
  Result<LanePlace> Truncate(SeqId lane, Pos end) override;
  Result<LanePlace> Copy(SeqId from, SeqId to) override;
  Status Keep(SeqId lane, const PieceKey& piece) override;
  Result<std::vector<bool>> Held(std::span<const PieceKey> pieces) override;
  Result<std::vector<PieceKey>> Find(std::span<const Digest> names) override;
  Status Forget() override;
  Result<LanePlace> Restore(const StageRestore& restore) override;

 private:
  CallTicket Next() { return {session_, ++calls_}; }
  StageHost& host_;
  const std::string address_;
  std::uint64_t session_ = 0;
  std::uint64_t calls_ = 0;
};

}  // namespace skippy::pipeline
