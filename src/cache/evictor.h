// Evictor: makes room under the caps, taking the least valuable unit first.
//
// Units are single: the last extent of a leaf, one snapshot, the window rows of one extent, the
// logits of one boundary. Leaves go before the bases they share; what a hit, a ticket or a pinned
// prefix holds never goes (invariant I5); a run is thinned before it is cut, and what runs have to
// spare (thinning.h) goes before any run is cut.
//
// Threads: single-threaded (owner). Errors: none; "no room" is a value.
// Cost: O(log candidates + extents of the node) a unit; pinned candidates are stepped over.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cache/eviction.h"
#include "cache/index.h"
#include "cache/thinning.h"
#include "cache/tombstones.h"

namespace skippy::cache {

struct EvictionCounters {
  std::uint64_t tokens = 0;
  std::uint64_t bytes = 0;
  std::uint64_t snapshots = 0;
  std::uint64_t logits = 0;
};

class Evictor {
 public:
  Evictor(const CacheOptions& options, Index& index, BlockStore& store, Tombstones& tombstones);

  // A use of the first `upto` tokens of the path. `hit`: a lookup returned something and its text
  // is known up to `text_upto`. Returns the tick of this use.
  std::uint64_t Touch(const Path& path, Pos upto, Pos text_upto, bool hit);
  // A lookup gave the state at boundary `at` of the node to a text that goes on. `first`: not seen
  // before of this text.
  void NoteResumed(Node* node, Pos at, bool first);
  // A text can go on with the first `at` tokens of this path at most.
  void NoteLeft(const Path& path, Pos at);
  // A leaf that has just been made: what other texts did says whether it needs a step back.
  void Welcome(Node* leaf);
  void TouchLogits(Node* node, Point& point, bool hit);
  // The record that ticked `prompt` ended the newest prompt, at a point of `node`.
  void SetNewestPrompt(std::uint64_t prompt, Node* node);

  // While room is made for a record that ends behind this leaf's end; null: done.
  void SetGrowing(Node* leaf);

  // After a structural change of the node (or its creation); keeps its place among the candidates
  // true.
  void Refresh(Node* node);
  // Bounds the share of entries and of logits that were hit: the least recently used of them lose
  // their precedence. After a batch of Refresh.
  void Rebalance();
  // Cuts a leaf that nothing supports any more, and its ancestors likewise (after a condemnation).
  void Settle(Node* leaf);
  // Takes the node out of all candidate sets. Before it is removed by others.
  void Forget(Node* node);

  // Evicts until `need` fits under every cap. False: nothing evictable is left; what was evicted is
  // gone.
  bool MakeRoom(NamespaceSlot slot, const Footprint& need);
  // Evicts whole leaves until `count` nodes can be added.
  bool MakeEntryRoom(std::uint64_t count);

  // What all nodes would take if no block were shared.
  std::uint64_t logical_bytes() const { return logical_bytes_; }
  const EvictionCounters& counters() const { return counters_; }

  // For the self-check: the candidate sets say exactly what the nodes say.
  bool IsConsistent();

 private:
  // A tail that was cut and whose tombstone is still to be written: further cuts of it replace it.
  struct PendingTombstone {
    const Node* at = nullptr;  // null: nothing pending
    Token next = 0;
  };

  CandidateKey KeyOf(Node* node, UnitKind kind) const;
  CandidateKey LogitsKeyOf(Node* node, const Point& point) const;
  void List(std::optional<CandidateKey>& listed, const std::optional<CandidateKey>& wanted,
            NamespaceSlot slot);
  void ListNode(Node* node, UnitKind kind, bool wanted);
  void UnlistLogits(Node* node);
  void Relist(Node* node);
  void Count(Node* node, std::uint64_t bytes, std::uint64_t hit);
  ThinContext ContextOf(const Node& node) const;
  void TrackNewestPrompt(Node* node);

  bool EvictOne(EvictionOrder& order, bool logits_only);
  bool Take(const CandidateKey& key);
  bool TakeThin(Node* node, ThinLevel level);
  bool TakeLogits(Node* node, Pos at);
  bool TakeTail(Node* node);
  bool TakeLeaf(Node* node);
  bool TailIsPinned(const Node& node, Pos cut) const;
  // Returns the node that lost a child and kept others; null: none did.
  Node* CutAndSettle(Node* leaf, Pos cut);
  void MergeIfChain(Node* node);
  void FlushTombstone();

  const CacheOptions& options_;
  Index& index_;
  BlockStore& store_;
  Tombstones& tombstones_;
  std::unique_ptr<EvictionPolicy> policy_;
  EvictionOrder order_;
  std::unordered_map<std::uint32_t, EvictionOrder>
      by_namespace_;  // only when namespaces have a cap
  std::uint64_t tick_ = 0;
  std::int32_t habit_ = 0;  // of texts to go on where a run ends: kHabit or more says so
  std::uint64_t newest_prompt_ = 0;
  Node* newest_node_ = nullptr;  // that has it; null: gone
  Node* growing_ = nullptr;
  std::uint64_t protected_bytes_ = 0;   // EndBytes of nodes that were hit
  std::uint64_t protected_logits_ = 0;  // results that were hit
  std::uint64_t logical_bytes_ = 0;
  PendingTombstone pending_;
  EvictionCounters counters_;
  std::vector<const Node*> chain_;  // scratch
};

}  // namespace skippy::cache
