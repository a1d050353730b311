// Recomputes everything that the cache keeps count of, from the tree and the blocks themselves.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "cache/cache_impl.h"

namespace skippy::cache {
namespace {

struct Found {
  std::unordered_map<std::uint32_t, std::map<std::uint32_t, std::uint32_t>>
      refs;  // block -> slot -> count
  std::uint64_t nodes = 0;
  std::uint64_t tokens = 0;
  std::uint64_t snapshots = 0;
  std::uint64_t logits = 0;
};

class Checker {
 public:
  Checker(const CacheOptions& options, Index& index, const BlockStore& store)
      : options_(options), index_(index), store_(store) {}

  std::string Run() {
    index_.ForEachNode([&](Node& node) { CheckNode(node); });
    index_.ForEachRoot([&](const Namespace&, NamespaceSlot slot, const Node& root) {
      Require(root.tokens.empty() && root.begin == 0 && root.slot == slot, "a root owns tokens");
    });
    CheckCounts();
    CheckBlocks();
    CheckLimits();
    return problem_;
  }

 private:
  void Require(bool ok, std::string_view what) {
    if (!ok && problem_.empty()) problem_ = what;
  }

  void CheckNode(Node& node) {
    ++found_.nodes;
    found_.tokens += node.tokens.size();
    Require(!node.tokens.empty(), "an entry owns no tokens");
    Require(node.tokens.empty() || node.tokens.front() == node.first,
            "an edge differs from its run");
    Require(node.begin == (node.parent->IsRoot() ? 0 : node.parent->end()),
            "a run does not join its parent");
    Require(node.parent->FindChild(node.first) == &node, "a parent does not know its child");
    Require(node.slot == node.parent->slot, "a child is in another namespace");
    Require(std::is_sorted(
                node.children.begin(), node.children.end(),
                [](const Node::Child& a, const Node::Child& b) { return a.first < b.first; }),
            "children are out of order");
    for (const Node::Child& child : node.children) {
      Require(child.node->live && child.node->parent == &node, "a child does not know its parent");
    }
    if (node.IsLeaf()) Require(index_.PrimaryEnd(node) == node.end(), "a leaf ends without state");
    CheckRows(node, Component::kKv, options_.shape.kv_row_bytes);
    CheckRows(node, Component::kWindow, options_.shape.window_row_bytes);
    CheckPoints(node);
  }

  void CheckRows(const Node& node, Component component, std::uint64_t row_bytes) {
    Pos end = node.begin;
    std::uint64_t rows = 0;
    for (const Extent& extent : node.Rows(component).extents()) {
      Require(row_bytes > 0, "rows of a component that the shape lacks");
      Require(!extent.range.empty() && extent.range.begin >= end, "extents overlap");
      end = extent.range.end;
      rows += extent.range.size();
      Require(extent.range.begin / options_.page_tokens ==
                  (extent.range.end - 1) / options_.page_tokens,
              "an extent crosses a page");
      const std::uint64_t last_row = std::uint64_t{extent.first_row} + extent.range.size();
      Require(last_row * row_bytes <= store_.bytes(extent.block).size(),
              "an extent exceeds its block");
      CheckReference(node, extent.block, component);
    }
    Require(end <= node.end(), "an extent exceeds its run");
    Require(rows == node.Rows(component).rows(), "rows are miscounted");
  }

  void CheckPoints(const Node& node) {
    Pos at = node.begin;
    for (const Point& point : node.points) {
      Require(point.at > at && point.at <= node.end(), "boundaries are out of order");
      at = point.at;
      if (point.snapshot) {
        ++found_.snapshots;
        CheckReference(node, *point.snapshot, Component::kSnapshot);
        Require(store_.bytes(*point.snapshot).size() == options_.shape.snapshot_bytes,
                "a snapshot's size is wrong");
      }
      if (point.logits) {
        ++found_.logits;
        CheckReference(node, *point.logits, Component::kLogits);
        Require(store_.bytes(*point.logits).size() == options_.shape.logits_bytes,
                "the logits' size is wrong");
      }
    }
  }

  void CheckReference(const Node& node, BlockId id, Component component) {
    const BlockStore::Block& block = store_.blocks()[id.value];
    Require(block.state == BlockStore::BlockState::kReady,
            "an entry refers to a block that is not ready");
    Require(block.component == component, "a block is used as another component");
    ++found_.refs[id.value][node.slot.value];
  }

  void CheckCounts() {
    Require(found_.nodes == index_.node_count(), "entries are miscounted");
    Require(found_.tokens == index_.token_count(), "tokens are miscounted");
    Require(found_.snapshots == index_.snapshot_count(), "snapshots are miscounted");
    Require(found_.logits == index_.logits_count(), "logits are miscounted");
  }

  void CheckBlocks() {
    Footprint live;
    std::uint64_t count = 0;
    std::uint64_t pinned = 0;
    std::map<std::uint32_t, std::uint64_t> by_namespace;
    for (std::uint32_t id = 0; id < store_.blocks().size(); ++id) {
      const BlockStore::Block& block = store_.blocks()[id];
      const auto& refs = found_.refs[id];
      if (block.state == BlockStore::BlockState::kFree) {
        Require(refs.empty() && block.refs == 0 && block.pins == 0, "a free block is in use");
        continue;
      }
      ++count;
      live[block.component] += block.buffer.size();
      pinned += block.pins > 0 ? 1 : 0;
      Require(block.refs > 0 || block.pins > 0, "a dead block is kept");
      std::uint32_t total = 0;
      for (const BlockStore::NamespaceRefs& by : block.by_namespace) {
        const auto it = refs.find(by.slot.value);
        Require(it != refs.end() && it->second == by.count,
                "references of a namespace are miscounted");
        by_namespace[by.slot.value] += block.buffer.size();
        total += by.count;
      }
      Require(refs.size() == block.by_namespace.size() && total == block.refs,
              "references are miscounted");
    }
    Require(live == store_.live(), "live bytes are miscounted");
    Require(count == store_.block_count(), "blocks are miscounted");
    Require(pinned == store_.pinned_count(), "pinned blocks are miscounted");
    Require(store_.FinderIsConsistent(), "the block finder is wrong");
    index_.ForEachRoot([&](const Namespace&, NamespaceSlot slot, const Node&) {
      Require(by_namespace[slot.value] == store_.NamespaceLive(slot),
              "a namespace's bytes are miscounted");
    });
  }

  void CheckLimits() {
    const std::uint64_t held = store_.live_bytes() + store_.reserved().Total();
    Require(held <= options_.max_bytes, "more bytes than the cap");
    Require(store_.live()[Component::kLogits] + store_.reserved()[Component::kLogits] <=
                options_.max_logits_bytes,
            "more logits than their cap");
    Require(index_.node_count() <= options_.max_entries, "more entries than the cap");
    if (options_.max_namespace_bytes == 0) return;
    index_.ForEachRoot([&](const Namespace&, NamespaceSlot slot, const Node&) {
      Require(store_.NamespaceLive(slot) + store_.NamespaceReserved(slot) <=
                  options_.max_namespace_bytes,
              "a namespace has more bytes than its cap");
    });
  }

  const CacheOptions& options_;
  Index& index_;
  const BlockStore& store_;
  Found found_;
  std::string problem_;
};

}  // namespace

std::string CacheImpl::FindBrokenInvariant() {
  std::string problem = Checker(options_, index_, *store_).Run();
  if (problem.empty() && !evictor_.IsConsistent()) problem = "the eviction order is wrong";
  if (problem.empty() && tombstones_.size() > options_.max_tombstones)
    problem = "too many tombstones";
  return problem;
}

}  // namespace skippy::cache
