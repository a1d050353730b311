// CacheImpl: what PrefixCache's calls do. Ties the index, the block store and the evictor together.
//
// Threads: single-threaded (owner). Errors: as the facade says. Cost: as the facade says.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cache/block_store.h"
#include "cache/boundary.h"
#include "cache/evictor.h"
#include "cache/index.h"
#include "cache/tombstones.h"
#include "skippy/prefix_cache.h"

namespace skippy::cache {

// What a PinnedHit holds.
struct PinState {
  explicit PinState(std::shared_ptr<BlockStore> store) : pins(std::move(store)) {}
  Pos boundary = 0;
  bool decoded_result = false;
  std::vector<RowSlice> kv;
  std::vector<RowSlice> window;
  ByteSpan snapshot;
  ByteSpan logits;
  BlockPins pins;  // a block a slice of kv, then of window; then the snapshot's, the logits'
};
// Parts that the hit does not have are left out.
std::vector<BlockId> BlocksOf(const PinState& hit, const HitParts& parts);

// What a RecordTicket holds. Dropped without Commit it gives its reservation back.
struct TicketState {
  TicketState(std::shared_ptr<BlockStore> store, NamespaceSlot account)
      : slot(account), base(std::move(store)) {}
  TicketState(const TicketState&) = delete;
  TicketState& operator=(const TicketState&) = delete;
  ~TicketState();
  void ReleaseReservation();

  Namespace ns;
  NamespaceSlot slot;
  std::vector<Token> tokens;
  Provenance provenance = Provenance::kPrefill;
  bool prompt_end = false;
  bool ends_text = false;
  bool part_start = false;
  std::vector<RecordTicket::Rows> rows;  // views of `buffers`
  std::vector<Buffer> buffers;           // one for each of `rows`
  std::optional<Buffer> snapshot;
  std::optional<Buffer> logits;
  Footprint reserved;
  BlockPins base;  // keeps what the record builds upon
  bool committed = false;
};

class CacheImpl {
 public:
  explicit CacheImpl(const CacheOptions& options);

  LookupResult Lookup(const LookupQuery& query);
  RecordPlan BeginRecord(const RecordRequest& request);
  Status Commit(std::unique_ptr<TicketState> ticket);
  // `blocks`: of the hit.
  void Condemn(const PinState& hit, std::span<const BlockId> blocks);
  Status PinPrefix(const Namespace& ns, TokenSpan tokens);
  Status UnpinPrefix(const Namespace& ns, TokenSpan tokens);
  void Clear();
  void ClearNamespace(const Namespace& ns);
  CacheStats Stats() const;
  const CacheOptions& options() const { return options_; }
  Status SelfCheck();

  static std::unique_ptr<PinState> Take(PinnedHit& hit) { return std::move(hit.state_); }
  static std::unique_ptr<TicketState> Take(RecordTicket& ticket) {
    return std::move(ticket.state_);
  }

 private:
  friend struct CacheTestPeer;

  // What a record has to store. Ranges are cut at pages only when buffers are made.
  struct Wants {
    bool gap = false;
    std::vector<PosRange> kv;
    std::vector<PosRange> window;
    std::vector<PosRange> window_optional;  // makes boundaries inside the new text usable
    bool snapshot = false;
    bool logits = false;
    bool Nothing() const { return kv.empty() && window.empty() && !snapshot && !logits; }
  };
  struct PrefixKey {
    Namespace ns;
    std::vector<Token> tokens;
    auto operator<=>(const PrefixKey&) const = default;
  };

  struct PinnedPrefix {
    Pos boundary = 0;
    BlockPins pins;
  };

  bool off() const { return options_.policy == PayloadPolicy::kOff || !latched_.empty(); }
  void Latch(std::string reason);

  // lookup (cache_lookup.cc)
  MissReason ReasonFor(const LookupQuery& query, const BoundaryRules& rules, Pos boundary);
  MissReason TextReason(const LookupQuery& query);
  bool HasDecodedResult(const LookupQuery& query, const BoundaryRules& rules) const;
  std::unique_ptr<PinState> MakePin(Pos boundary, bool decoded);
  bool AppendSlices(Component component, PosRange range, std::vector<RowSlice>& out,
                    BlockPins& pins);
  void RepinPrefixes(const Namespace& ns);
  void CountLookup(const LookupQuery& query, const LookupResult& result);

  // record (cache_record.cc)
  Wants FindWants(const RecordRequest& request);
  Footprint FootprintOf(const Wants& wants) const;
  std::uint64_t LeastBytes(const RecordRequest& request, const Wants& wants) const;
  void PinBase(const RecordRequest& request, BlockPins& pins);
  RecordPlan Refuse(const RecordRequest& request, RecordOutcome outcome);
  RecordPlan NothingNew(const RecordRequest& request);
  bool FindRoom(NamespaceSlot slot, Wants& wants);
  bool FillTicket(const RecordRequest& request, const Wants& wants, TicketState& ticket);
  bool AddBuffers(Component component, const std::vector<PosRange>& ranges, TicketState& ticket);
  void StoreTicket(TicketState& ticket);
  void StoreRows(TicketState& ticket, std::size_t index);
  void MarkPromptEnd(Node* node, Pos at, std::uint64_t tick);
  BlockId StoreBlock(Component component, Buffer buffer);
  bool BaseIsThere(const TicketState& ticket);

  // self-check (self_check.cc)
  std::string FindBrokenInvariant();

  const CacheOptions options_;
  const BoundaryRules token_rules_;
  std::shared_ptr<BlockStore> store_;  // shared with hits and tickets, which may outlive the cache
  Index index_;
  Tombstones tombstones_;
  Evictor evictor_;
  std::map<PrefixKey, PinnedPrefix> pinned_prefixes_;
  bool replaced_ = false;  // the record being stored replaced weaker state
  CacheStats counters_;    // the counters only; gauges are filled in by Stats()
  std::string latched_;
  // Scratch, reused so that lookups do not allocate.
  Path path_;
  std::vector<Node*> made_;
  std::vector<PosRange> ranges_;
};

}  // namespace skippy::cache
