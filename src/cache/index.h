// Index: the radix trees over token ids, one root a namespace, and the structural changes on them.
//
// A node owns the tokens of positions [begin, end) and everything at boundaries in (begin, end]:
// extents of KV and window rows, and points (snapshots, logits, prompt ends). Roots own no tokens.
//
// The primary component is the one that decides how far a run reaches: KV rows if the shape has
// them, else window rows, else snapshots. Every leaf ends exactly where its primary component ends;
// a leaf without any is removed. So text that nothing can be restored from does not linger.
//
// Threads: single-threaded (owner). Errors: none; misuse is a broken invariant that SelfCheck
// finds. Cost: Walk O(tokens compared + nodes * log children), no allocation (the caller's vector
// is reused).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "cache/block_store.h"
#include "cache/eviction.h"
#include "cache/row_map.h"
#include "skippy/identity.h"
#include "skippy/memory_shape.h"
#include "skippy/prefix_cache.h"

namespace skippy::cache {

// What lies at one boundary.
struct Point {
  Pos at = 0;
  std::optional<BlockId> snapshot;
  Provenance snapshot_provenance = Provenance::kPrefill;
  std::optional<BlockId> logits;
  Provenance logits_provenance = Provenance::kPrefill;
  std::uint64_t logits_tick = 0;
  std::uint64_t logits_age = 0;
  std::uint64_t logits_hits = 0;
  std::optional<CandidateKey> listed_logits;  // the evictor's
  bool part_start = false;                    // of the snapshot: RecordRequest::part_start
  std::uint64_t prompt_end = 0;  // tick of the record that ended a prompt here; 0: none did
};

struct Node {
  struct Child {
    Token first = 0;
    Node* node = nullptr;
  };

  Node* parent = nullptr;  // null: a root
  NamespaceSlot slot;
  std::uint64_t serial = 0;
  bool live = false;
  Pos begin = 0;
  Token first = 0;  // the parent's edge; stays when the run is cut to nothing
  std::vector<Token> tokens;
  std::vector<Child> children;  // sorted by first token
  std::array<RowMap, 2> rows;   // kKv, kWindow
  std::vector<Point> points;    // sorted by position

  // Use. `tick` counts for the head of the run, `tail_tick` for its end: a split hands them out.
  std::uint64_t tick = 0;
  std::uint64_t tail_tick = 0;
  std::uint64_t age = 0;  // of the policy, at the last use
  std::uint64_t hits = 0;
  Pos hit_end = 0;         // text up to here was asked for again since it was inserted
  bool continued = false;  // texts go on at the very end: seen here, or else elsewhere
  bool ended = false;      // a prompt or an answer ends at the very end

  // The evictor's bookkeeping.
  std::array<std::optional<CandidateKey>, kUnitKindCount> listed;
  std::uint64_t counted_bytes = 0;   // logical, as last counted
  std::uint64_t counted_as_hit = 0;  // EndBytes, as last counted, if it was hit

  Pos end() const { return begin + static_cast<Pos>(tokens.size()); }
  bool IsRoot() const { return parent == nullptr; }
  bool IsLeaf() const { return children.empty() && !IsRoot(); }
  bool WasHit() const { return hit_end > 0 && hit_end >= end(); }
  RowMap& Rows(Component c) { return rows[static_cast<std::size_t>(c)]; }
  const RowMap& Rows(Component c) const { return rows[static_cast<std::size_t>(c)]; }
  Node* FindChild(Token token) const;
  // The point at `p`, or null.
  Point* FindPoint(Pos p);
  const Point* FindPoint(Pos p) const;
  std::uint64_t LogicalBytes(const MemoryShape& shape) const;
  // Of them, what resuming at the end of the run takes.
  std::uint64_t EndBytes(const MemoryShape& shape) const;
};

// The nodes whose runs a token sequence follows, from the root's child on. The last one may be
// matched in part only.
struct Path {
  std::vector<Node*> nodes;
  Pos matched = 0;
  bool diverged = false;  // the stored text goes on, but differently
  void Clear() {
    nodes.clear();
    matched = 0;
    diverged = false;
  }
  Node* NodeOf(Pos boundary) const;  // the node that owns the boundary; null for 0
};

class Index {
 public:
  Index(const MemoryShape& shape, BlockStore& store) : shape_(shape), store_(store) {}

  std::optional<NamespaceSlot> Find(const Namespace& ns) const;
  NamespaceSlot FindOrCreate(const Namespace& ns);
  // Forgets namespaces that hold nothing and have nothing reserved.
  void DropEmptyNamespaces();
  Node* Root(NamespaceSlot slot) const { return namespaces_[slot.value].root; }
  const Namespace& KeyOf(NamespaceSlot slot) const { return namespaces_[slot.value].key; }

  void Walk(NamespaceSlot slot, TokenSpan tokens, Path& out) const;

  // Nodes that inserting `length` tokens along `path` would add: 0, 1 or 2.
  std::uint64_t NodesNeeded(const Path& path, Pos length) const;
  // Makes [0, tokens.size()) known text and `path` its path. A split leaves the lower half in
  // place, with its children. Returns the upper halves or new nodes it made, oldest first, in
  // `made`.
  void InsertText(NamespaceSlot slot, TokenSpan tokens, Path& path, std::vector<Node*>& made);
  Point& PointAt(Node* node, Pos p);  // made when absent

  Pos PrimaryEnd(const Node& node) const;
  // Where the last primary unit of the node begins: cutting there removes exactly that unit.
  Pos LastUnitBegin(const Node& node) const;
  struct CutResult {
    Pos forgotten = 0;  // tokens
    Token next = 0;     // the first of them
  };
  // Drops everything behind `cut` from the leaf, then what PrimaryEnd says is without support. The
  // node may be empty afterwards (end() == begin).
  CutResult CutLeaf(Node* leaf, Pos cut);
  void DropSnapshot(Point& point, const Node& node);
  void DropLogits(Point& point, const Node& node);
  // Removes points that say nothing any more.
  void CompactPoints(Node* node);
  // REQUIRES: no children.
  void Remove(Node* node);
  // Undoes a split that nobody needs any more: the node takes over its only child, which is freed.
  // The use of the merged run is that of its tail. REQUIRES: one child; not a root.
  void MergeWithOnlyChild(Node* node);

  RefAccount AccountOf(const Node& node) { return {store_, node.slot}; }
  std::uint64_t node_count() const { return node_count_; }
  std::uint64_t token_count() const { return token_count_; }
  std::uint64_t snapshot_count() const { return snapshot_count_; }
  std::uint64_t logits_count() const { return logits_count_; }
  void SetSnapshot(Node* node, Point& point, BlockId block, Provenance provenance);
  void SetLogits(Node* node, Point& point, BlockId block, Provenance provenance);

  // Visits every live node that is not a root.
  template <class Visit>
  void ForEachNode(Visit visit) {
    for (Node& node : nodes_) {
      if (node.live && !node.IsRoot()) visit(node);
    }
  }
  template <class Visit>
  void ForEachRoot(Visit visit) const {
    for (const auto& [key, slot] : by_key_) visit(key, slot, *namespaces_[slot.value].root);
  }

 private:
  struct NamespaceEntry {
    Namespace key;
    Node* root = nullptr;
  };
  Node* NewNode(Node* parent, NamespaceSlot slot, Pos begin);
  void Free(Node* node);
  Node* Split(Node* node, Pos at);  // returns the new upper half

  const MemoryShape shape_;
  BlockStore& store_;
  std::deque<Node> nodes_;  // stable addresses; owns all nodes
  std::vector<Node*> free_nodes_;
  std::unordered_map<Namespace, NamespaceSlot> by_key_;
  std::vector<NamespaceEntry> namespaces_;
  std::vector<NamespaceSlot> free_slots_;
  std::vector<Namespace> maybe_empty_;
  std::uint64_t next_serial_ = 1;
  std::uint64_t node_count_ = 0;
  std::uint64_t token_count_ = 0;
  std::uint64_t snapshot_count_ = 0;
  std::uint64_t logits_count_ = 0;
};

}  // namespace skippy::cache
