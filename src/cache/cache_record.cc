// Two-phase record: find what is missing, make room, hand out buffers; then insert all of it or
// nothing.
#include <algorithm>

#include "cache/cache_impl.h"

namespace skippy::cache {
namespace {

// Positions are 32 bits; twice this is still a position.
constexpr std::size_t kMaxTokens = std::size_t{1} << 31;

// Only grid rows replace weaker ones: between the others no reader makes a difference.
Provenance Replaces(Provenance provenance) {
  return provenance == Provenance::kGrid ? Provenance::kGrid : Provenance::kDecode;
}

void AppendRange(PosRange range, std::vector<PosRange>& out) {
  if (range.empty()) return;
  if (!out.empty() && out.back().end == range.begin) {
    out.back().end = range.end;
  } else {
    out.push_back(range);
  }
}

// Parts of `range` that the path lacks, or has weaker than `at_least`.
void AppendMissing(const Path& path, Component component, PosRange range, Provenance at_least,
                   std::vector<PosRange>& out) {
  for (const Node* node : path.nodes) {
    const Pos known_end = std::min({node->end(), path.matched, range.end});
    const PosRange here{std::max(node->begin, range.begin), known_end};
    if (!here.empty()) node->Rows(component).AppendMissing(here, at_least, out);
  }
  AppendRange({std::max(range.begin, path.matched), range.end}, out);
}

// Drops what lies before `from`; true if anything did.
bool ClipBefore(Pos from, std::vector<PosRange>& ranges) {
  bool clipped = false;
  for (PosRange& range : ranges) {
    clipped = clipped || range.begin < from;
    range.begin = std::max(range.begin, from);
  }
  std::erase_if(ranges, [](const PosRange& range) { return range.empty(); });
  return clipped;
}

std::uint64_t CountRows(const std::vector<PosRange>& ranges) {
  std::uint64_t rows = 0;
  for (const PosRange& range : ranges) rows += range.size();
  return rows;
}

}  // namespace

TicketState::~TicketState() {
  ReleaseReservation();
  if (!committed) base.store().CountAborted();
}

void TicketState::ReleaseReservation() {
  base.store().Release(slot, reserved);
  reserved = {};
}

RecordPlan CacheImpl::BeginRecord(const RecordRequest& request) {
  if (off()) return {RecordOutcome::kDisabled, std::nullopt};
  index_.DropEmptyNamespaces();
  path_.Clear();
  if (const auto known = index_.Find(request.ns)) index_.Walk(*known, request.tokens, path_);
  if (request.tokens.empty()) return {RecordOutcome::kNothingNew, std::nullopt};
  if (request.tokens.size() > kMaxTokens) return Refuse(request, RecordOutcome::kTooLarge);
  Wants wants = FindWants(request);
  if (wants.gap) return {RecordOutcome::kGap, std::nullopt};
  const std::uint64_t cap = options_.max_namespace_bytes > 0
                                ? std::min(options_.max_bytes, options_.max_namespace_bytes)
                                : options_.max_bytes;
  const std::uint64_t least = LeastBytes(request, wants);
  if (wants.logits && least + options_.shape.logits_bytes > cap) wants.logits = false;
  if (wants.Nothing()) return NothingNew(request);
  if (least > cap) return Refuse(request, RecordOutcome::kTooLarge);

  evictor_.Touch(path_, path_.matched, path_.matched, false);
  const NamespaceSlot slot = index_.FindOrCreate(request.ns);
  auto ticket = std::make_unique<TicketState>(store_, slot);
  ticket->committed = true;  // counted as aborted only from the moment the caller has it
  PinBase(request, ticket->base);
  const std::uint64_t nodes = index_.NodesNeeded(path_, static_cast<Pos>(request.tokens.size()));
  const bool extends = nodes == 0 && path_.matched < request.tokens.size();  // a leaf
  evictor_.SetGrowing(extends && wants.snapshot ? path_.nodes.back() : nullptr);
  // From here on eviction may remove nodes of path_; only path_.matched is used.
  const bool planned = nodes <= options_.max_entries && evictor_.MakeEntryRoom(nodes) &&
                       FindRoom(slot, wants) && FillTicket(request, wants, *ticket);
  evictor_.SetGrowing(nullptr);
  if (!planned) return Refuse(request, RecordOutcome::kNoRoom);
  ticket->committed = false;
  return {RecordOutcome::kPlanned, RecordTicket(std::move(ticket))};
}

CacheImpl::Wants CacheImpl::FindWants(const RecordRequest& request) {
  Wants wants;
  const MemoryShape& shape = options_.shape;
  const Pos n = static_cast<Pos>(request.tokens.size());
  const bool grid = request.provenance == Provenance::kGrid;
  if (shape.HasKv()) {
    AppendMissing(path_, Component::kKv, {0, n}, Provenance::kDecode, wants.kv);
    wants.gap = ClipBefore(request.rows_available_from, wants.kv);
    if (wants.gap) return wants;
    if (grid) {
      wants.kv.clear();
      AppendMissing(path_, Component::kKv, {0, n}, Provenance::kGrid, wants.kv);
      ClipBefore(request.rows_available_from, wants.kv);
    }
  }
  bool usable = true;
  if (shape.HasWindow()) {
    const PosRange needed{shape.WindowBegin(n), n};
    AppendMissing(path_, Component::kWindow, needed, Provenance::kDecode, wants.window);
    usable = !ClipBefore(request.window_available_from, wants.window);
    if (grid) {
      wants.window.clear();
      AppendMissing(path_, Component::kWindow, needed, Provenance::kGrid, wants.window);
      ClipBefore(request.window_available_from, wants.window);
    }
    const PosRange inner{std::max(request.window_available_from, path_.matched), needed.begin};
    AppendRange(inner, wants.window_optional);
  }
  const Node* node = n <= path_.matched ? path_.NodeOf(n) : nullptr;
  const Point* point = node != nullptr ? node->FindPoint(n) : nullptr;
  if (shape.HasSnapshot()) {
    const bool known = point != nullptr && point->snapshot;
    const bool weaker = known && grid && point->snapshot_provenance != Provenance::kGrid;
    wants.snapshot = request.snapshot && (!known || weaker);
    usable = usable && (known || wants.snapshot);
  }
  if (request.logits && usable && shape.logits_bytes > 0 &&
      shape.logits_bytes <= options_.max_logits_bytes) {
    const bool known = point != nullptr && point->logits;
    wants.logits = !known || (grid && point->logits_provenance != Provenance::kGrid);
  }
  return wants;
}

Footprint CacheImpl::FootprintOf(const Wants& wants) const {
  Footprint need;
  need[Component::kKv] = CountRows(wants.kv) * options_.shape.kv_row_bytes;
  need[Component::kWindow] = CountRows(wants.window) * options_.shape.window_row_bytes;
  need[Component::kSnapshot] = wants.snapshot ? options_.shape.snapshot_bytes : 0;
  need[Component::kLogits] = wants.logits ? options_.shape.logits_bytes : 0;
  return need;
}

// What the boundary needs to be usable, were the cache empty.
std::uint64_t CacheImpl::LeastBytes(const RecordRequest& request, const Wants& wants) const {
  const MemoryShape& shape = options_.shape;
  const Pos n = static_cast<Pos>(request.tokens.size());
  return n * shape.kv_row_bytes + (n - shape.WindowBegin(n)) * shape.window_row_bytes +
         (wants.snapshot ? shape.snapshot_bytes : 0);
}

// The last known rows hold up everything before them (rows are cut from the end of leaves only);
// window rows, snapshot and logits of the boundary are held themselves.
void CacheImpl::PinBase(const RecordRequest& request, BlockPins& pins) {
  const Pos n = static_cast<Pos>(request.tokens.size());
  const Pos known = std::min(n, path_.matched);
  if (options_.shape.HasKv()) {
    bool found = false;
    for (auto node = path_.nodes.rbegin(); node != path_.nodes.rend() && !found; ++node) {
      const auto& extents = (*node)->Rows(Component::kKv).extents();
      const auto last = std::find_if(extents.rbegin(), extents.rend(),
                                     [&](const Extent& e) { return e.range.begin < known; });
      found = last != extents.rend();
      if (found) pins.Add(last->block);
    }
  }
  if (options_.shape.HasWindow()) {
    ForEachExtent(path_, Component::kWindow, {options_.shape.WindowBegin(n), known},
                  [&](const Extent& extent) { pins.Add(extent.block); });
  }
  const Node* node = n <= path_.matched ? path_.NodeOf(n) : nullptr;
  const Point* point = node != nullptr ? node->FindPoint(n) : nullptr;
  if (point != nullptr && point->snapshot) pins.Add(*point->snapshot);
  if (point != nullptr && point->logits) pins.Add(*point->logits);
}

RecordPlan CacheImpl::Refuse(const RecordRequest& request, RecordOutcome outcome) {
  if (outcome == RecordOutcome::kTooLarge) {
    ++counters_.records_refused_too_large;
  } else {
    ++counters_.records_refused_no_room;
  }
  if (path_.matched < request.tokens.size()) {
    const TokenSpan refused = request.tokens.first(path_.matched + std::size_t{1});
    tombstones_.Add(Tombstones::KeyOf(request.ns, refused), MissReason::kEvicted);
  }
  return {outcome, std::nullopt};
}

RecordPlan CacheImpl::NothingNew(const RecordRequest& request) {
  const Pos n = static_cast<Pos>(request.tokens.size());
  const std::uint64_t tick = evictor_.Touch(path_, n, path_.matched, false);
  Node* node = n <= path_.matched ? path_.NodeOf(n) : nullptr;
  if (node == nullptr) return {RecordOutcome::kNothingNew, std::nullopt};
  if (n == node->end() && request.EndsText()) node->ended = true;
  if (request.prompt_end) {
    MarkPromptEnd(node, n, tick);
    evictor_.Refresh(node);
  }
  return {RecordOutcome::kNothingNew, std::nullopt};
}

bool CacheImpl::FindRoom(NamespaceSlot slot, Wants& wants) {
  Wants generous = wants;
  generous.window = wants.window_optional;
  for (const PosRange& range : wants.window) AppendRange(range, generous.window);
  // Rows that only make inner boundaries usable are worth free room, not an eviction.
  if (store_->Violated(slot, FootprintOf(generous)) == BlockStore::Limit::kNone) {
    wants = std::move(generous);
    return true;
  }
  if (store_->CouldFit(FootprintOf(wants)) && evictor_.MakeRoom(slot, FootprintOf(wants)))
    return true;
  if (!wants.logits) return false;
  wants.logits = false;
  return !wants.Nothing() && store_->CouldFit(FootprintOf(wants)) &&
         evictor_.MakeRoom(slot, FootprintOf(wants));
}

bool CacheImpl::AddBuffers(Component component, const std::vector<PosRange>& ranges,
                           TicketState& ticket) {
  const std::uint64_t row_bytes =
      component == Component::kKv ? options_.shape.kv_row_bytes : options_.shape.window_row_bytes;
  for (const PosRange& range : ranges) {
    for (Pos begin = range.begin; begin < range.end;) {
      const Pos page_end = (begin / options_.page_tokens + 1) * options_.page_tokens;
      const PosRange piece{begin, std::min(page_end, range.end)};
      auto buffer = Buffer::Allocate(piece.size() * row_bytes);
      if (!buffer) return false;
      ticket.rows.push_back({component, piece, buffer->span()});
      ticket.buffers.push_back(std::move(*buffer));
      begin = piece.end;
    }
  }
  return true;
}

bool CacheImpl::FillTicket(const RecordRequest& request, const Wants& wants, TicketState& ticket) {
  ticket.ns = request.ns;
  ticket.tokens.assign(request.tokens.begin(), request.tokens.end());
  ticket.provenance = request.provenance;
  ticket.prompt_end = request.prompt_end;
  ticket.ends_text = request.EndsText();
  ticket.part_start = request.part_start;
  ticket.reserved = FootprintOf(wants);
  store_->Reserve(ticket.slot, ticket.reserved);
  if (!AddBuffers(Component::kKv, wants.kv, ticket)) return false;
  if (!AddBuffers(Component::kWindow, wants.window, ticket)) return false;
  if (wants.snapshot) {
    ticket.snapshot = Buffer::Allocate(options_.shape.snapshot_bytes);
    if (!ticket.snapshot) return false;
  }
  if (wants.logits) {
    ticket.logits = Buffer::Allocate(options_.shape.logits_bytes);
    if (!ticket.logits) return false;
  }
  return true;
}

Status CacheImpl::Commit(std::unique_ptr<TicketState> ticket) {
  if (ticket == nullptr || &ticket->base.store() != store_.get()) {
    return Err(ErrorCode::kInvalidArgument, "this ticket is empty or of another cache");
  }
  if (off()) return Err(ErrorCode::kUnavailable, "the cache is off");
  const Pos n = static_cast<Pos>(ticket->tokens.size());
  index_.Walk(ticket->slot, ticket->tokens, path_);
  const std::uint64_t nodes = index_.NodesNeeded(path_, n);
  if (nodes > options_.max_entries || !evictor_.MakeEntryRoom(nodes)) {
    return Err(ErrorCode::kResourceExhausted, "no room for another entry");
  }
  index_.Walk(ticket->slot, ticket->tokens, path_);  // the tree may just have changed
  if (index_.node_count() + index_.NodesNeeded(path_, n) > options_.max_entries) {
    return Err(ErrorCode::kResourceExhausted, "no room for another entry");
  }
  if (!BaseIsThere(*ticket)) {
    return Err(ErrorCode::kUnavailable, "what this record builds upon was dropped meanwhile");
  }
  ticket->ReleaseReservation();  // its bytes become live bytes now
  ticket->committed = true;
  StoreTicket(*ticket);
  ++counters_.records;
  return {};
}

// All KV rows of the prefix must be there or come with the ticket. Without KV rows, new text must
// at least bring the state that its end stands for.
bool CacheImpl::BaseIsThere(const TicketState& ticket) {
  if (!options_.shape.HasKv()) {
    const Pos n = static_cast<Pos>(ticket.tokens.size());
    if (n <= path_.matched) return true;
    if (!options_.shape.HasWindow()) return ticket.snapshot.has_value();
    return !ticket.rows.empty() && ticket.rows.back().positions.end == n;
  }
  ranges_.clear();
  AppendMissing(path_, Component::kKv, {0, static_cast<Pos>(ticket.tokens.size())},
                Provenance::kDecode, ranges_);
  auto piece = ticket.rows.begin();
  for (const PosRange& missing : ranges_) {
    for (Pos p = missing.begin; p < missing.end; p = piece->positions.end) {
      while (piece != ticket.rows.end() &&
             (piece->component != Component::kKv || piece->positions.end <= p)) {
        ++piece;
      }
      if (piece == ticket.rows.end() || piece->positions.begin > p) return false;
    }
  }
  return true;
}

void CacheImpl::StoreTicket(TicketState& ticket) {
  const Pos n = static_cast<Pos>(ticket.tokens.size());
  const Pos known = path_.matched;
  Node* former_leaf = path_.nodes.empty() ? nullptr : path_.nodes.back();
  const Pos former_end = former_leaf != nullptr ? former_leaf->end() : 0;
  index_.InsertText(ticket.slot, ticket.tokens, path_, made_);
  for (Node* made : made_) {
    if (made->IsLeaf()) evictor_.Welcome(made);
  }
  const bool extended = made_.empty() && former_leaf != nullptr && n > former_end;
  Node* node = path_.NodeOf(n);
  if (n == node->end() && ticket.ends_text) node->ended = true;
  if (extended && former_leaf->hit_end >= former_end && n - former_end <= former_end) {
    former_leaf->hit_end = n;  // a conversation that goes on keeps the standing it has earned
  }
  replaced_ = false;
  Pos changed_from = std::min(known, n);
  for (std::size_t i = 0; i < ticket.rows.size(); ++i) {
    changed_from = std::min(changed_from, ticket.rows[i].positions.begin);
    StoreRows(ticket, i);
  }
  const auto beats = [&](Provenance stored) { return stored > Replaces(ticket.provenance); };
  if (ticket.snapshot) {
    Point& point = index_.PointAt(node, n);
    if (!point.snapshot || beats(point.snapshot_provenance)) {
      replaced_ = replaced_ || point.snapshot;
      const BlockId block = StoreBlock(Component::kSnapshot, std::move(*ticket.snapshot));
      index_.SetSnapshot(node, point, block, ticket.provenance);
      point.part_start = ticket.part_start;
    } else {
      counters_.deduplicated_bytes += ticket.snapshot->size();
    }
  }
  const std::uint64_t tick = evictor_.Touch(path_, n, path_.matched, false);
  if (ticket.logits) {
    Point& point = index_.PointAt(node, n);
    if (!point.logits || beats(point.logits_provenance)) {
      const BlockId block = StoreBlock(Component::kLogits, std::move(*ticket.logits));
      index_.SetLogits(node, point, block, ticket.provenance);
    } else {
      counters_.deduplicated_bytes += ticket.logits->size();
    }
    evictor_.TouchLogits(node, point, false);
  }
  if (ticket.prompt_end) MarkPromptEnd(node, n, tick);
  for (Node* made : made_) {
    evictor_.Refresh(made);
    for (const Node::Child& child : made->children)
      evictor_.Refresh(child.node);  // lower half of a split
  }
  for (Node* on_path : path_.nodes) {
    if (on_path->end() >= changed_from) evictor_.Refresh(on_path);
  }
  evictor_.Rebalance();
  if (replaced_ && !pinned_prefixes_.empty()) RepinPrefixes(ticket.ns);
}

void CacheImpl::StoreRows(TicketState& ticket, std::size_t index) {
  const RecordTicket::Rows& piece = ticket.rows[index];
  ranges_.clear();
  AppendMissing(path_, piece.component, piece.positions, Replaces(ticket.provenance), ranges_);
  if (ranges_.empty()) {
    counters_.deduplicated_bytes += piece.buffer.size();
    return;
  }
  const BlockId block = StoreBlock(piece.component, std::move(ticket.buffers[index]));
  // Held meanwhile: the rows it replaces may be the only other reference of the very same block.
  BlockPins hold(store_);
  hold.Add(block);
  for (const PosRange& range : ranges_) {
    for (Node* node : path_.nodes) {
      const PosRange here{std::max(node->begin, range.begin), std::min(node->end(), range.end)};
      if (here.empty()) continue;
      RowMap& rows = node->Rows(piece.component);
      const RefAccount account = index_.AccountOf(*node);
      const std::uint64_t before = rows.rows();
      rows.Remove(here, account);
      replaced_ = replaced_ || rows.rows() < before;
      rows.Insert({here, block, here.begin - piece.positions.begin, ticket.provenance}, account);
    }
  }
}

BlockId CacheImpl::StoreBlock(Component component, Buffer buffer) {
  const std::size_t size = buffer.size();
  const Digest digest = options_.digest(buffer.span());
  const BlockStore::Added added = store_->Add(component, std::move(buffer), digest);
  (added.stored ? counters_.recorded_bytes : counters_.deduplicated_bytes) += size;
  return added.id;
}

void CacheImpl::MarkPromptEnd(Node* node, Pos at, std::uint64_t tick) {
  index_.PointAt(node, at).prompt_end = tick;
  evictor_.SetNewestPrompt(tick, node);
}

}  // namespace skippy::cache
