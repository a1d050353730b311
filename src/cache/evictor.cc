#include "cache/evictor.h"

#include <algorithm>
#include <utility>

namespace skippy::cache {
namespace {

// Entries that were hit may take this share of the cache with what their ends need; beyond it the
// least recently used of them lose their precedence, so that yesterday's favourites do not leave
// the newcomers without room. Likewise logits that were hit, of the logits' share.
std::uint64_t ProtectedShare(std::uint64_t cap) { return cap / 3; }
std::uint64_t ProtectedLogitsShare(std::uint64_t cap) { return cap / 4 * 3; }

// So many texts more went on at the end of a run than left one before its end (each of those
// counts kLeftWeight times: a step back that is missing costs more than one that is kept in vain):
// then new runs need no step back. Bounded, so that a change of use is soon noticed.
constexpr std::int32_t kHabit = 4;
constexpr std::int32_t kLeftWeight = 4;
constexpr std::int32_t kHabitLimit = 16;

}  // namespace

Evictor::Evictor(const CacheOptions& options, Index& index, BlockStore& store,
                 Tombstones& tombstones)
    : options_(options),
      index_(index),
      store_(store),
      tombstones_(tombstones),
      policy_(MakeEvictionPolicy(options.eviction)) {}

std::uint64_t Evictor::Touch(const Path& path, Pos upto, Pos text_upto, bool hit) {
  ++tick_;
  for (Node* node : path.nodes) {
    if (node->begin >= upto) break;
    node->tick = tick_;
    node->age = policy_->Age();
    if (text_upto >= node->end()) node->tail_tick = tick_;
    if (hit) {
      ++node->hits;
      node->hit_end = std::max(node->hit_end, std::min(text_upto, node->end()));
    }
    Relist(node);
  }
  Rebalance();
  return tick_;
}

// A base that is shared ends where texts part, and a run that was cut or is being written
// somewhere: that a text goes on there says nothing about ends of prompts and answers.
void Evictor::NoteResumed(Node* node, Pos at, bool first) {
  if (at != node->end() || (node->IsLeaf() && !node->ended)) return;
  if (node->IsLeaf() && first) habit_ = std::min(habit_ + 1, kHabitLimit);
  if (node->continued) return;
  node->continued = true;
  Refresh(node);
}

// In the first half of a run: another text that begins alike, for which no step back is kept.
void Evictor::NoteLeft(const Path& path, Pos at) {
  Node* leaf = path.nodes.empty() ? nullptr : path.nodes.back();
  if (leaf == nullptr || !leaf->IsLeaf() || at >= leaf->end()) return;
  if (at < leaf->begin + leaf->tokens.size() / 2) return;
  habit_ = std::max(habit_ - kLeftWeight, -kHabitLimit);
  if (!leaf->continued) return;
  leaf->continued = false;
  Refresh(leaf);
}

void Evictor::Welcome(Node* leaf) { leaf->continued = habit_ >= kHabit; }

void Evictor::TouchLogits(Node* node, Point& point, bool hit) {
  point.logits_tick = tick_;
  point.logits_age = policy_->Age();
  if (hit) ++point.logits_hits;
  List(point.listed_logits, LogitsKeyOf(node, point), node->slot);
  Rebalance();
}

CandidateKey Evictor::KeyOf(Node* node, UnitKind kind) const {
  EntryFacts facts;
  facts.spare = kind == UnitKind::kSpare;
  facts.was_hit = node->WasHit();
  facts.tick = node->tail_tick;
  facts.age = node->age;
  facts.hits = node->hits;
  facts.tokens = node->tokens.size();
  facts.bytes = node->LogicalBytes(options_.shape);
  return {policy_->RankOf(facts), kind, node->begin, node->serial, 0, node};
}

CandidateKey Evictor::LogitsKeyOf(Node* node, const Point& point) const {
  EntryFacts facts;
  // They take the bytes of many rows and save one token, unless somebody does ask again.
  const bool newest = point.prompt_end != 0 && point.prompt_end == newest_prompt_;
  facts.spare = point.logits_hits == 0 && !newest;
  facts.was_hit = point.logits_hits > 0;
  facts.tick = point.logits_tick;
  facts.age = point.logits_age;
  facts.hits = point.logits_hits;
  facts.tokens = 1;  // they save the last token's forward pass
  facts.bytes = options_.shape.logits_bytes;
  return {policy_->RankOf(facts), UnitKind::kLogits, point.at, node->serial, point.at, node};
}

void Evictor::List(std::optional<CandidateKey>& listed, const std::optional<CandidateKey>& wanted,
                   NamespaceSlot slot) {
  const auto apply = [&](EvictionOrder& order) {
    if (listed && wanted) {
      order.Move(*listed, *wanted);
    } else if (listed) {
      order.Erase(*listed);
    } else if (wanted) {
      order.Insert(*wanted);
    }
  };
  if (listed == wanted) return;
  const auto protected_logits = [](const std::optional<CandidateKey>& key) {
    return key && key->kind == UnitKind::kLogits && key->rank.segment == SegmentedLru::kHit ? 1U
                                                                                            : 0U;
  };
  protected_logits_ += protected_logits(wanted);
  protected_logits_ -= protected_logits(listed);
  apply(order_);
  if (options_.max_namespace_bytes > 0) apply(by_namespace_[slot.value]);
  listed = wanted;
}

void Evictor::ListNode(Node* node, UnitKind kind, bool wanted) {
  std::optional<CandidateKey> key;
  if (wanted) key = KeyOf(node, kind);
  List(node->listed[static_cast<std::size_t>(kind)], key, node->slot);
}

void Evictor::Refresh(Node* node) {
  TrackNewestPrompt(node);
  const ThinContext context = ContextOf(*node);
  ListNode(node, UnitKind::kSpare, HasThin(*node, context, ThinLevel::kSpare));
  ListNode(node, UnitKind::kThin, HasThin(*node, context, ThinLevel::kThin));
  ListNode(node, UnitKind::kLastResort, HasThin(*node, context, ThinLevel::kLastResort));
  ListNode(node, UnitKind::kTail, node->IsLeaf());
  for (Point& point : node->points) {
    std::optional<CandidateKey> key;
    if (point.logits) key = LogitsKeyOf(node, point);
    List(point.listed_logits, key, node->slot);
  }
  Relist(node);
}

void Evictor::Relist(Node* node) {
  for (const UnitKind kind :
       {UnitKind::kSpare, UnitKind::kThin, UnitKind::kTail, UnitKind::kLastResort}) {
    if (node->listed[static_cast<std::size_t>(kind)]) ListNode(node, kind, true);
  }
  Count(node, node->LogicalBytes(options_.shape),
        node->WasHit() ? node->EndBytes(options_.shape) : 0);
}

void Evictor::Count(Node* node, std::uint64_t bytes, std::uint64_t hit) {
  logical_bytes_ -= node->counted_bytes;
  protected_bytes_ -= node->counted_as_hit;
  node->counted_bytes = bytes;
  node->counted_as_hit = hit;
  logical_bytes_ += bytes;
  protected_bytes_ += hit;
}

void Evictor::UnlistLogits(Node* node) {
  for (Point& point : node->points) List(point.listed_logits, std::nullopt, node->slot);
}

void Evictor::Forget(Node* node) {
  for (auto& listed : node->listed) List(listed, std::nullopt, node->slot);
  UnlistLogits(node);
  if (newest_node_ == node) newest_node_ = nullptr;
  if (growing_ == node) growing_ = nullptr;
  Count(node, 0, 0);
}

void Evictor::Rebalance() {
  if (!policy_->segmented()) return;
  const auto oldest_hit = [&](UnitKind kind) {
    const CandidateKey first{{SegmentedLru::kHit, 0}, UnitKind::kSpare, ~Pos{0}, 0, 0, nullptr};
    return order_.of(kind).lower_bound(first);
  };
  // What is in use at this very moment keeps its place, however large it is.
  while (protected_bytes_ > ProtectedShare(options_.max_bytes)) {
    const auto key = oldest_hit(UnitKind::kTail);
    if (key == order_.of(UnitKind::kTail).end() || key->node->tail_tick == tick_) break;
    Node* node = key->node;
    node->hit_end = 0;
    Relist(node);
  }
  while (protected_logits_ * options_.shape.logits_bytes >
         ProtectedLogitsShare(options_.max_logits_bytes)) {
    const auto key = oldest_hit(UnitKind::kLogits);
    Node* node = key->node;
    Point& point = *node->FindPoint(key->at);
    if (point.logits_tick == tick_) break;
    point.logits_hits = 0;
    List(point.listed_logits, LogitsKeyOf(node, point), node->slot);
  }
}

ThinContext Evictor::ContextOf(const Node& node) const {
  Pos before = 0;
  if (options_.shape.HasSnapshot()) {
    for (const Node* up = node.parent; up != nullptr && before == 0; up = up->parent) {
      for (auto it = up->points.rbegin(); it != up->points.rend() && before == 0; ++it) {
        if (it->snapshot) before = it->at;
      }
    }
  }
  return {options_.shape, newest_prompt_, before, &node == growing_};
}

void Evictor::SetGrowing(Node* leaf) {
  Node* former = std::exchange(growing_, leaf);
  if (former != nullptr) Refresh(former);
  if (leaf != nullptr) Refresh(leaf);
}

void Evictor::SetNewestPrompt(std::uint64_t prompt, Node* node) {
  Node* former = newest_node_;
  newest_prompt_ = prompt;
  newest_node_ = node;
  if (former != nullptr && former != node) Refresh(former);
}

// A split may have moved the newest prompt end to another node, and a cut may have taken it.
void Evictor::TrackNewestPrompt(Node* node) {
  if (newest_prompt_ == 0) return;
  const bool here = std::any_of(node->points.rbegin(), node->points.rend(),
                                [&](const Point& p) { return p.prompt_end == newest_prompt_; });
  if (here) {
    newest_node_ = node;
  } else if (newest_node_ == node) {
    newest_node_ = nullptr;
  }
}

bool Evictor::MakeRoom(NamespaceSlot slot, const Footprint& need) {
  bool ok = true;
  for (;;) {
    const BlockStore::Limit limit = store_.Violated(slot, need);
    if (limit == BlockStore::Limit::kNone) break;
    EvictionOrder& order =
        limit == BlockStore::Limit::kNamespace ? by_namespace_[slot.value] : order_;
    const std::uint64_t before = store_.live_bytes();
    ok = EvictOne(order, limit == BlockStore::Limit::kLogits);
    counters_.bytes += before - store_.live_bytes();
    if (!ok) break;
  }
  FlushTombstone();
  return ok;
}

bool Evictor::MakeEntryRoom(std::uint64_t count) {
  bool ok = true;
  while (ok && index_.node_count() + count > options_.max_entries) {
    const std::uint64_t before = store_.live_bytes();
    ok = VisitInOrder(order_, {UnitKind::kTail}, [&](const CandidateKey& key) {
      return key.node != newest_node_ && TakeLeaf(key.node);
    });
    if (!ok) {
      ok = VisitInOrder(order_, {UnitKind::kTail},
                        [&](const CandidateKey& key) { return TakeLeaf(key.node); });
    }
    counters_.bytes += before - store_.live_bytes();
  }
  FlushTombstone();
  return ok;
}

bool Evictor::EvictOne(EvictionOrder& order, bool logits_only) {
  if (logits_only) {
    return VisitInOrder(order, {UnitKind::kLogits},
                        [&](const CandidateKey& key) { return Take(key); });
  }
  // The newest prompt end gives way only to entries of its own segment.
  std::optional<CandidateKey> newest;
  const bool taken =
      VisitInOrder(order, {UnitKind::kSpare, UnitKind::kThin, UnitKind::kLogits, UnitKind::kTail},
                   [&](const CandidateKey& key) {
                     if (newest && key.rank.segment > newest->rank.segment) {
                       const CandidateKey held_back = *newest;
                       newest.reset();
                       if (Take(held_back)) return true;
                     }
                     if (key.kind == UnitKind::kTail && key.node == newest_node_) {
                       newest = key;
                       return false;
                     }
                     return Take(key);
                   });
  if (taken) return true;
  if (newest && Take(*newest)) return true;
  return VisitInOrder(order, {UnitKind::kLastResort},
                      [&](const CandidateKey& key) { return Take(key); });
}

bool Evictor::Take(const CandidateKey& key) {
  const Rank rank = key.rank;  // the key may be gone after the unit is
  bool taken = false;
  switch (key.kind) {
    case UnitKind::kSpare: taken = TakeThin(key.node, ThinLevel::kSpare); break;
    case UnitKind::kThin: taken = TakeThin(key.node, ThinLevel::kThin); break;
    case UnitKind::kLogits: taken = TakeLogits(key.node, key.at); break;
    case UnitKind::kTail: taken = TakeTail(key.node); break;
    case UnitKind::kLastResort: taken = TakeThin(key.node, ThinLevel::kLastResort); break;
  }
  if (taken) policy_->OnEvict(rank);
  return taken;
}

bool Evictor::TakeThin(Node* node, ThinLevel level) {
  const auto unit = ChooseThin(*node, ContextOf(*node), store_, level);
  if (!unit) return false;
  if (unit->component == Component::kWindow) {
    node->Rows(Component::kWindow).Remove(unit->rows, index_.AccountOf(*node));
  } else {
    index_.DropSnapshot(*node->FindPoint(unit->at), *node);
    ++counters_.snapshots;
    UnlistLogits(node);  // compaction moves points
    index_.CompactPoints(node);
  }
  Refresh(node);
  return true;
}

bool Evictor::TakeLogits(Node* node, Pos at) {
  Point& point = *node->FindPoint(at);
  if (store_.Pinned(*point.logits)) return false;
  UnlistLogits(node);
  index_.DropLogits(point, *node);
  ++counters_.logits;
  index_.CompactPoints(node);
  Refresh(node);
  return true;
}

bool Evictor::TailIsPinned(const Node& node, Pos cut) const {
  for (const RowMap& rows : node.rows) {
    const auto& extents = rows.extents();
    for (auto it = extents.rbegin(); it != extents.rend() && it->range.begin >= cut; ++it) {
      if (store_.Pinned(it->block)) return true;
    }
  }
  for (auto it = node.points.rbegin(); it != node.points.rend() && it->at > cut; ++it) {
    if (it->snapshot && store_.Pinned(*it->snapshot)) return true;
    if (it->logits && store_.Pinned(*it->logits)) return true;
  }
  return false;
}

bool Evictor::TakeTail(Node* node) {
  const Pos cut = index_.LastUnitBegin(*node);
  if (TailIsPinned(*node, cut)) return false;
  MergeIfChain(CutAndSettle(node, cut));
  return true;
}

bool Evictor::TakeLeaf(Node* node) {
  if (TailIsPinned(*node, node->begin)) return false;
  MergeIfChain(CutAndSettle(node, node->begin));
  return true;
}

Node* Evictor::CutAndSettle(Node* leaf, Pos cut) {
  if (pending_.at != leaf) FlushTombstone();
  pending_ = {};
  for (;;) {
    for (const Point& point : leaf->points) {
      if (point.at <= cut) continue;
      counters_.snapshots += point.snapshot ? 1 : 0;
      counters_.logits += point.logits ? 1 : 0;
    }
    UnlistLogits(leaf);
    const Index::CutResult result = index_.CutLeaf(leaf, cut);
    counters_.tokens += result.forgotten;
    if (result.forgotten > 0) pending_ = {leaf, result.next};
    if (leaf->end() > leaf->begin) {
      Refresh(leaf);
      return nullptr;
    }
    Node* parent = leaf->parent;
    pending_ = {parent, leaf->first};
    Forget(leaf);
    index_.Remove(leaf);
    if (parent->IsRoot()) return nullptr;
    if (!parent->IsLeaf()) {
      Refresh(parent);
      return parent;
    }
    leaf = parent;
    cut = parent->end();
  }
}

// A run that was cut for a branch that is gone becomes one again, so that branches that come and go
// do not leave long chains behind. Not where the halves differ in standing, nor at a snapshot: the
// junction stays.
void Evictor::MergeIfChain(Node* node) {
  if (node == nullptr || node->children.size() != 1) return;
  Node* child = node->children.front().node;
  const Point* junction = node->FindPoint(node->end());
  if (node->WasHit() != child->WasHit() || (junction != nullptr && junction->snapshot)) return;
  FlushTombstone();  // its key ends where the node ends now
  Forget(child);
  index_.MergeWithOnlyChild(node);
  Refresh(node);
}

void Evictor::Settle(Node* leaf) {
  const EvictionCounters before = counters_;
  CutAndSettle(leaf, leaf->end());
  counters_ = before;  // nothing was evicted
  pending_ = {};
}

void Evictor::FlushTombstone() {
  if (pending_.at == nullptr) return;
  chain_.clear();
  for (const Node* node = pending_.at; !node->IsRoot(); node = node->parent) chain_.push_back(node);
  Tombstones::KeyBuilder key(index_.KeyOf(pending_.at->slot));
  for (auto it = chain_.rbegin(); it != chain_.rend(); ++it) key.Append((*it)->tokens);
  key.Append({&pending_.next, 1});
  tombstones_.Add(key.Finish(), MissReason::kEvicted);
  pending_ = {};
}

bool Evictor::IsConsistent() {
  std::array<std::size_t, kUnitKindCount> expected{};
  std::uint64_t protected_bytes = 0;
  std::uint64_t logical_bytes = 0;
  bool ok = true;
  const auto check = [&](const std::optional<CandidateKey>& listed,
                         std::optional<CandidateKey> wanted) {
    ok = ok && listed == wanted;
    if (!wanted || !ok) return;
    ++expected[static_cast<std::size_t>(wanted->kind)];
    const auto& set = order_.of(wanted->kind);
    const auto it = set.find(*wanted);
    ok = it != set.end() && it->node == wanted->node;
  };
  index_.ForEachNode([&](Node& node) {
    const ThinContext context = ContextOf(node);
    const auto expect = [&](UnitKind kind, bool wanted) {
      std::optional<CandidateKey> key;
      if (wanted) key = KeyOf(&node, kind);
      check(node.listed[static_cast<std::size_t>(kind)], key);
    };
    expect(UnitKind::kSpare, HasThin(node, context, ThinLevel::kSpare));
    expect(UnitKind::kThin, HasThin(node, context, ThinLevel::kThin));
    expect(UnitKind::kLastResort, HasThin(node, context, ThinLevel::kLastResort));
    expect(UnitKind::kTail, node.IsLeaf());
    for (const Point& point : node.points) {
      std::optional<CandidateKey> key;
      if (point.logits) key = LogitsKeyOf(&node, point);
      check(point.listed_logits, key);
    }
    protected_bytes += node.WasHit() ? node.EndBytes(options_.shape) : 0;
    logical_bytes += node.LogicalBytes(options_.shape);
  });
  for (std::size_t kind = 0; kind < kUnitKindCount; ++kind) {
    ok = ok && order_.of(static_cast<UnitKind>(kind)).size() == expected[kind];
  }
  ok = ok && (newest_node_ == nullptr ||
              std::any_of(newest_node_->points.begin(), newest_node_->points.end(),
                          [&](const Point& p) { return p.prompt_end == newest_prompt_; }));
  std::uint64_t protected_logits = 0;
  for (const CandidateKey& key : order_.of(UnitKind::kLogits))
    protected_logits += key.rank.segment == SegmentedLru::kHit;
  ok = ok && protected_logits == protected_logits_;
  return ok && protected_bytes == protected_bytes_ && logical_bytes == logical_bytes_ &&
         pending_.at == nullptr && growing_ == nullptr;
}

}  // namespace skippy::cache
