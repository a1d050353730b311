#include "cache/cache_impl.h"

#include <algorithm>

namespace skippy::cache {

CacheImpl::CacheImpl(const CacheOptions& options)
    : options_(options),
      token_rules_{options.shape},
      store_(std::make_shared<BlockStore>(
          StoreLimits{options.max_bytes, options.max_namespace_bytes, options.max_logits_bytes})),
      index_(options.shape, *store_),
      tombstones_(options.max_tombstones),
      evictor_(options_, index_, *store_, tombstones_) {}

void CacheImpl::Latch(std::string reason) {
  if (latched_.empty()) latched_ = std::move(reason);
}

std::vector<BlockId> BlocksOf(const PinState& hit, const HitParts& parts) {
  const auto& ids = hit.pins.ids();
  std::vector<BlockId> blocks;
  for (const std::size_t slice : parts.kv)
    if (slice < hit.kv.size()) blocks.push_back(ids[slice]);
  for (const std::size_t slice : parts.window)
    if (slice < hit.window.size()) blocks.push_back(ids[hit.kv.size() + slice]);
  if (parts.snapshot && !hit.snapshot.empty())
    blocks.push_back(ids[hit.kv.size() + hit.window.size()]);
  return blocks;
}

void CacheImpl::Condemn(const PinState& hit, std::span<const BlockId> blocks) {
  if (&hit.pins.store() != store_.get() || off()) return;
  for (const BlockId block : blocks) store_->Condemn(block);
  ++counters_.condemned;
  std::erase_if(pinned_prefixes_, [&](const auto& entry) {
    const auto& ids = entry.second.pins.ids();
    return std::any_of(ids.begin(), ids.end(), [&](BlockId id) { return store_->Condemned(id); });
  });
  // A condemned block may be shared by any entry, so all are looked at; condemning is the rare
  // exception.
  std::vector<Node*> touched;
  index_.ForEachNode([&](Node& node) {
    const RefAccount account = index_.AccountOf(node);
    bool any = false;
    for (RowMap& rows : node.rows) any = rows.RemoveCondemned(account) || any;
    for (Point& point : node.points) {
      const bool snapshot = point.snapshot && store_->Condemned(*point.snapshot);
      const bool logits = point.logits && store_->Condemned(*point.logits);
      if (snapshot) index_.DropSnapshot(point, node);
      if (logits) index_.DropLogits(point, node);
      any = any || snapshot || logits;
    }
    if (any) touched.push_back(&node);
  });
  for (Node* node : touched) {
    evictor_.Refresh(node);
    index_.CompactPoints(node);
  }
  // Deepest first: settling a leaf may settle its ancestors, and those must still be there.
  std::sort(touched.begin(), touched.end(),
            [](const Node* a, const Node* b) { return a->serial < b->serial; });
  std::stable_sort(touched.begin(), touched.end(),
                   [](const Node* a, const Node* b) { return a->begin > b->begin; });
  for (Node* node : touched) {
    if (node->live && node->IsLeaf()) evictor_.Settle(node);
  }
}

void CacheImpl::Clear() {
  pinned_prefixes_.clear();
  std::vector<Namespace> all;
  index_.ForEachRoot([&](const Namespace& ns, NamespaceSlot, const Node&) { all.push_back(ns); });
  for (const Namespace& ns : all) ClearNamespace(ns);
  tombstones_.Clear();
}

void CacheImpl::ClearNamespace(const Namespace& ns) {
  std::erase_if(pinned_prefixes_, [&](const auto& entry) { return entry.first.ns == ns; });
  const auto slot = index_.Find(ns);
  if (!slot) return;
  // Depth first without recursion: runs may be as many as a prompt has tokens.
  std::vector<Node*> stack{index_.Root(*slot)};
  while (!stack.empty()) {
    Node* node = stack.back();
    if (!node->children.empty()) {
      stack.push_back(node->children.back().node);
      continue;
    }
    stack.pop_back();
    if (node->IsRoot()) continue;
    evictor_.Forget(node);
    index_.Remove(node);
  }
  index_.DropEmptyNamespaces();
}

CacheStats CacheImpl::Stats() const {
  CacheStats stats = counters_;
  stats.physical_bytes = store_->live_bytes();
  stats.logical_bytes = evictor_.logical_bytes();
  stats.max_bytes = options_.max_bytes;
  stats.component_bytes = store_->live().bytes;
  stats.entries = index_.node_count();
  stats.blocks = store_->block_count();
  stats.snapshots = index_.snapshot_count();
  stats.logits = index_.logits_count();
  stats.pinned_blocks = store_->pinned_count();
  stats.known_tokens = index_.token_count();
  stats.records_aborted = store_->aborted();
  stats.evicted_tokens = evictor_.counters().tokens;
  stats.evicted_bytes = evictor_.counters().bytes;
  stats.evicted_snapshots = evictor_.counters().snapshots;
  stats.evicted_logits = evictor_.counters().logits;
  stats.latched = latched_;
  return stats;
}

Status CacheImpl::SelfCheck() {
  std::string broken = FindBrokenInvariant();
  if (broken.empty()) return {};
  Latch(broken);
  return Err(ErrorCode::kInternal, std::move(broken));
}

}  // namespace skippy::cache
