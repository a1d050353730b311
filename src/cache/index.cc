#include "cache/index.h"

#include <algorithm>
#include <cstring>

namespace skippy::cache {
namespace {

// Length of the common prefix; compares in blocks that the compiler turns into vector code.
std::size_t CommonLength(const Token* a, const Token* b, std::size_t count) {
  constexpr std::size_t kStride = 256;
  std::size_t i = 0;
  while (i + kStride <= count && std::memcmp(a + i, b + i, kStride * sizeof(Token)) == 0)
    i += kStride;
  while (i < count && a[i] == b[i]) ++i;
  return i;
}

auto LowerChild(std::vector<Node::Child>& children, Token first) {
  return std::lower_bound(children.begin(), children.end(), first,
                          [](const Node::Child& c, Token t) { return c.first < t; });
}

auto LowerPoint(std::vector<Point>& points, Pos at) {
  return std::lower_bound(points.begin(), points.end(), at,
                          [](const Point& p, Pos pos) { return p.at < pos; });
}

}  // namespace

Node* Node::FindChild(Token token) const {
  const auto it = std::lower_bound(children.begin(), children.end(), token,
                                   [](const Child& c, Token t) { return c.first < t; });
  return it != children.end() && it->first == token ? it->node : nullptr;
}

Point* Node::FindPoint(Pos p) {
  const auto it = LowerPoint(points, p);
  return it != points.end() && it->at == p ? &*it : nullptr;
}

const Point* Node::FindPoint(Pos p) const {
  const auto it = std::lower_bound(points.begin(), points.end(), p,
                                   [](const Point& point, Pos pos) { return point.at < pos; });
  return it != points.end() && it->at == p ? &*it : nullptr;
}

std::uint64_t Node::LogicalBytes(const MemoryShape& shape) const {
  std::uint64_t bytes =
      rows[0].rows() * shape.kv_row_bytes + rows[1].rows() * shape.window_row_bytes;
  for (const Point& point : points) {
    bytes += (point.snapshot ? shape.snapshot_bytes : 0) + (point.logits ? shape.logits_bytes : 0);
  }
  return bytes;
}

std::uint64_t Node::EndBytes(const MemoryShape& shape) const {
  const std::uint64_t window = std::min<std::uint64_t>(rows[1].rows(), shape.window_tokens);
  const bool snapshot = std::any_of(points.begin(), points.end(),
                                    [](const Point& p) { return p.snapshot.has_value(); });
  return rows[0].rows() * shape.kv_row_bytes + window * shape.window_row_bytes +
         (snapshot ? shape.snapshot_bytes : 0);
}

Node* Path::NodeOf(Pos boundary) const {
  const auto it = std::lower_bound(nodes.begin(), nodes.end(), boundary,
                                   [](const Node* node, Pos p) { return node->end() < p; });
  return boundary > 0 && it != nodes.end() ? *it : nullptr;
}

std::optional<NamespaceSlot> Index::Find(const Namespace& ns) const {
  const auto it = by_key_.find(ns);
  if (it == by_key_.end()) return std::nullopt;
  return it->second;
}

NamespaceSlot Index::FindOrCreate(const Namespace& ns) {
  if (const auto known = Find(ns)) return *known;
  NamespaceSlot slot{static_cast<std::uint32_t>(namespaces_.size())};
  if (free_slots_.empty()) {
    namespaces_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  Node* root = NewNode(nullptr, slot, 0);
  namespaces_[slot.value] = {ns, root};
  by_key_.emplace(ns, slot);
  maybe_empty_.push_back(ns);
  return slot;
}

void Index::DropEmptyNamespaces() {
  std::erase_if(maybe_empty_, [&](const Namespace& ns) {
    const auto slot = Find(ns);
    if (!slot) return true;
    Node* root = Root(*slot);
    if (!root->children.empty()) return true;
    if (store_.NamespaceReserved(*slot) > 0) return false;
    by_key_.erase(ns);
    Free(root);
    namespaces_[slot->value] = {};
    free_slots_.push_back(*slot);
    return true;
  });
}

Node* Index::NewNode(Node* parent, NamespaceSlot slot, Pos begin) {
  Node* node = nullptr;
  if (free_nodes_.empty()) {
    node = &nodes_.emplace_back();
  } else {
    node = free_nodes_.back();
    free_nodes_.pop_back();
    *node = Node{};
  }
  node->parent = parent;
  node->slot = slot;
  node->serial = next_serial_++;
  node->live = true;
  node->begin = begin;
  if (parent != nullptr) ++node_count_;
  return node;
}

void Index::Free(Node* node) {
  if (!node->IsRoot()) --node_count_;
  *node = Node{};
  free_nodes_.push_back(node);
}

void Index::Walk(NamespaceSlot slot, TokenSpan tokens, Path& out) const {
  out.Clear();
  const Node* at = Root(slot);
  std::size_t pos = 0;
  while (pos < tokens.size()) {
    Node* child = at->FindChild(tokens[pos]);
    if (child == nullptr) {
      out.diverged = !at->children.empty();
      break;
    }
    const std::size_t count = std::min(child->tokens.size(), tokens.size() - pos);
    const std::size_t common = CommonLength(child->tokens.data(), tokens.data() + pos, count);
    out.nodes.push_back(child);
    pos += common;
    if (common < child->tokens.size()) {
      out.diverged = pos < tokens.size();
      break;
    }
    at = child;
  }
  out.matched = static_cast<Pos>(pos);
}

std::uint64_t Index::NodesNeeded(const Path& path, Pos length) const {
  if (length <= path.matched) return 0;
  if (path.nodes.empty()) return 1;
  const Node& last = *path.nodes.back();
  if (path.matched < last.end()) return 2;
  return last.IsLeaf() ? 0 : 1;
}

Node* Index::Split(Node* node, Pos at) {
  Node* upper = NewNode(node->parent, node->slot, node->begin);
  const auto head = static_cast<std::ptrdiff_t>(at - node->begin);
  upper->tokens.assign(node->tokens.begin(), node->tokens.begin() + head);
  node->tokens.erase(node->tokens.begin(), node->tokens.begin() + head);
  node->tokens.shrink_to_fit();
  const RefAccount account = AccountOf(*node);
  for (std::size_t c = 0; c < node->rows.size(); ++c) {
    upper->rows[c] = node->rows[c].SplitBefore(at, account);
  }
  const auto behind = LowerPoint(node->points, at + 1);
  upper->points.assign(std::make_move_iterator(node->points.begin()),
                       std::make_move_iterator(behind));
  node->points.erase(node->points.begin(), behind);
  LowerChild(node->parent->children, node->first)->node = upper;
  upper->children.push_back({node->tokens.front(), node});
  node->parent = upper;
  node->begin = at;
  upper->first = node->first;
  node->first = node->tokens.front();

  upper->tick = node->tick;
  upper->tail_tick = node->tick;
  upper->age = node->age;
  upper->hits = node->hits;
  upper->hit_end = std::min(node->hit_end, at);
  node->tick = node->tail_tick;
  if (node->hit_end <= at) {
    node->hits = 0;
    node->hit_end = 0;
  }
  return upper;
}

void Index::InsertText(NamespaceSlot slot, TokenSpan tokens, Path& path, std::vector<Node*>& made) {
  made.clear();
  const Pos length = static_cast<Pos>(tokens.size());
  if (length <= path.matched) return;
  if (!path.nodes.empty() && path.matched < path.nodes.back()->end()) {
    Node* upper = Split(path.nodes.back(), path.matched);
    made.push_back(upper);
    path.nodes.back() = upper;
  }
  const TokenSpan rest = tokens.subspan(path.matched);
  if (!path.nodes.empty() && path.nodes.back()->IsLeaf()) {
    Node* leaf = path.nodes.back();
    leaf->tokens.insert(leaf->tokens.end(), rest.begin(), rest.end());
    leaf->ended = false;
  } else {
    Node* parent = path.nodes.empty() ? Root(slot) : path.nodes.back();
    Node* leaf = NewNode(parent, slot, path.matched);
    leaf->first = rest.front();
    leaf->tokens.assign(rest.begin(), rest.end());
    parent->children.insert(LowerChild(parent->children, rest.front()), {rest.front(), leaf});
    path.nodes.push_back(leaf);
    made.push_back(leaf);
  }
  token_count_ += rest.size();
  path.matched = length;
  path.diverged = false;
}

Point& Index::PointAt(Node* node, Pos p) {
  const auto it = LowerPoint(node->points, p);
  if (it != node->points.end() && it->at == p) return *it;
  Point point;
  point.at = p;
  return *node->points.insert(it, std::move(point));
}

void Index::SetSnapshot(Node* node, Point& point, BlockId block, Provenance provenance) {
  store_.Ref(block, node->slot);
  if (point.snapshot) DropSnapshot(point, *node);
  point.snapshot = block;
  point.snapshot_provenance = provenance;
  ++snapshot_count_;
}

void Index::SetLogits(Node* node, Point& point, BlockId block, Provenance provenance) {
  store_.Ref(block, node->slot);
  if (point.logits) DropLogits(point, *node);
  point.logits = block;
  point.logits_provenance = provenance;
  ++logits_count_;
}

void Index::DropSnapshot(Point& point, const Node& node) {
  store_.Unref(*point.snapshot, node.slot);
  point.snapshot.reset();
  point.part_start = false;
  --snapshot_count_;
}

void Index::DropLogits(Point& point, const Node& node) {
  store_.Unref(*point.logits, node.slot);
  point.logits.reset();
  --logits_count_;
}

void Index::CompactPoints(Node* node) {
  std::erase_if(node->points,
                [](const Point& p) { return !p.snapshot && !p.logits && p.prompt_end == 0; });
}

Pos Index::PrimaryEnd(const Node& node) const {
  if (shape_.HasKv()) return node.Rows(Component::kKv).End(node.begin);
  if (shape_.HasWindow()) return node.Rows(Component::kWindow).End(node.begin);
  for (auto it = node.points.rbegin(); it != node.points.rend(); ++it) {
    if (it->snapshot) return it->at;
  }
  return node.begin;
}

Pos Index::LastUnitBegin(const Node& node) const {
  const Component rows = shape_.HasKv() ? Component::kKv : Component::kWindow;
  if (shape_.HasKv() || shape_.HasWindow()) {
    const auto& extents = node.Rows(rows).extents();
    return extents.empty() ? node.begin : extents.back().range.begin;
  }
  // Snapshots alone: the run is cut back to the snapshot before the last.
  bool last_seen = false;
  for (auto it = node.points.rbegin(); it != node.points.rend(); ++it) {
    if (!it->snapshot) continue;
    if (last_seen) return it->at;
    last_seen = true;
  }
  return node.begin;
}

Index::CutResult Index::CutLeaf(Node* leaf, Pos cut) {
  const Pos old_end = leaf->end();
  const RefAccount account = AccountOf(*leaf);
  // Twice at most: what is left may reach less far than the cut (rows that a condemned block took
  // away).
  for (;;) {
    for (RowMap& rows : leaf->rows) rows.Remove({cut, old_end}, account);
    for (Point& point : leaf->points) {
      if (point.at <= cut) continue;
      if (point.snapshot) DropSnapshot(point, *leaf);
      if (point.logits) DropLogits(point, *leaf);
    }
    leaf->points.erase(LowerPoint(leaf->points, cut + 1), leaf->points.end());
    const Pos primary = PrimaryEnd(*leaf);
    if (primary >= cut) break;
    cut = primary;
  }
  CutResult result;
  result.forgotten = old_end - cut;
  if (result.forgotten > 0) result.next = leaf->tokens[cut - leaf->begin];
  leaf->tokens.resize(cut - leaf->begin);
  if (result.forgotten > 0) leaf->continued = leaf->ended = false;
  // What is left now ends within text that was used later than the tail was.
  if (cut <= leaf->hit_end) leaf->tail_tick = leaf->tick;
  leaf->hit_end = std::min(leaf->hit_end, cut);
  token_count_ -= result.forgotten;
  return result;
}

void Index::Remove(Node* node) {
  const RefAccount account = AccountOf(*node);
  for (RowMap& rows : node->rows) rows.Remove({node->begin, rows.End(node->begin)}, account);
  for (Point& point : node->points) {
    if (point.snapshot) DropSnapshot(point, *node);
    if (point.logits) DropLogits(point, *node);
  }
  token_count_ -= node->tokens.size();
  Node* parent = node->parent;
  auto& children = parent->children;
  children.erase(LowerChild(children, node->first));
  if (parent->IsRoot() && children.empty())
    maybe_empty_.push_back(namespaces_[node->slot.value].key);
  Free(node);
}

void Index::MergeWithOnlyChild(Node* node) {
  Node* child = node->children.front().node;
  const RefAccount account = AccountOf(*node);
  node->tokens.insert(node->tokens.end(), child->tokens.begin(), child->tokens.end());
  for (std::size_t c = 0; c < node->rows.size(); ++c) {
    node->rows[c].Append(std::move(child->rows[c]), account);
  }
  node->points.insert(node->points.end(), std::make_move_iterator(child->points.begin()),
                      std::make_move_iterator(child->points.end()));
  node->tail_tick = child->tail_tick;
  node->age = child->age;
  node->hits = child->hits;
  node->continued = child->continued;
  node->ended = child->ended;
  if (child->hit_end > 0) node->hit_end = child->hit_end;
  node->children = std::move(child->children);
  for (const Node::Child& grandchild : node->children) grandchild.node->parent = node;
  Free(child);
}

}  // namespace skippy::cache
