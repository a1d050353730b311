// Lookup, pins and reasons.
#include <algorithm>

#include "cache/cache_impl.h"

namespace skippy::cache {

LookupResult CacheImpl::Lookup(const LookupQuery& query) {
  LookupResult result;
  if (off()) {
    result.reason = MissReason::kDisabled;
    CountLookup(query, result);
    return result;
  }
  const BoundaryRules rules{options_.shape, query.exactness, query.grid};
  const auto slot = index_.Find(query.ns);
  path_.Clear();
  if (slot) index_.Walk(*slot, query.tokens, path_);
  result.first_different = path_.matched;

  const bool decoded = HasDecodedResult(query, rules);
  const Pos boundary = decoded ? path_.matched : DeepestUsable(path_, rules, query.max_boundary);
  result.reason = decoded ? MissReason::kNone : ReasonFor(query, rules, boundary);
  if (boundary > 0 && boundary >= options_.min_hit_tokens) {
    auto pin = MakePin(boundary, decoded);
    if (pin == nullptr) {
      Latch("a usable boundary has a gap");
      result.reason = MissReason::kDisabled;
    } else {
      result.hit = PinnedHit(std::move(pin));
    }
  } else if (boundary > 0) {
    result.reason = MissReason::kBelowMin;
  }
  if (result.hit && !query.peek) {
    evictor_.Touch(path_, boundary, path_.matched, true);
    Node* node = path_.NodeOf(boundary);
    if (decoded) {
      evictor_.TouchLogits(node, *node->FindPoint(boundary), true);
    } else {
      evictor_.NoteResumed(node, boundary, !query.again);
    }
  }
  if (!query.peek && !query.again && !decoded)
    evictor_.NoteLeft(path_, std::min(path_.matched, query.max_boundary));
  CountLookup(query, result);
  return result;
}

// Exactness::kBit gives a stored result only when its boundary is on the grid and rows, snapshot
// and logits all come from grid chunks: those are functions of the prefix alone, so it does not
// matter which record brought which of them. Elsewhere the last chunk of one record may stand
// beside the logits of another.
bool CacheImpl::HasDecodedResult(const LookupQuery& query, const BoundaryRules& rules) const {
  if (!query.allow_decoded_result || path_.matched == 0 || path_.matched != query.tokens.size())
    return false;
  const Node* node = path_.NodeOf(path_.matched);
  const Point* point = node->FindPoint(path_.matched);
  return point != nullptr && point->logits && rules.Accepts(point->logits_provenance) &&
         Usable(path_, rules, path_.matched);
}

MissReason CacheImpl::ReasonFor(const LookupQuery& query, const BoundaryRules& rules,
                                Pos boundary) {
  const Pos asked = std::min<Pos>(query.max_boundary, static_cast<Pos>(query.tokens.size()));
  if (boundary < rules.RoundDown(std::min(path_.matched, asked))) {
    // Rows inside known text are missing only where damaged blocks were dropped.
    const BoundaryRules any{options_.shape};
    const bool hole = KvFrontier(path_, any, asked) < std::min(path_.matched, asked);
    return hole ? MissReason::kCorrupt : MissReason::kNoBoundaryState;
  }
  if (path_.matched >= asked)
    return path_.matched > 0 || asked == 0 ? MissReason::kNone : TextReason(query);
  return TextReason(query);
}

MissReason CacheImpl::TextReason(const LookupQuery& query) {
  if (path_.matched >= query.tokens.size()) return MissReason::kNone;
  if (!tombstones_.empty()) {
    const TokenSpan forgotten = query.tokens.first(path_.matched + std::size_t{1});
    if (const auto reason = tombstones_.Find(Tombstones::KeyOf(query.ns, forgotten)))
      return *reason;
  }
  if (path_.matched == 0) return MissReason::kNeverSeen;
  return path_.diverged ? MissReason::kDiverged : MissReason::kNone;
}

bool CacheImpl::AppendSlices(Component component, PosRange range, std::vector<RowSlice>& out,
                             BlockPins& pins) {
  const std::uint64_t row_bytes =
      component == Component::kKv ? options_.shape.kv_row_bytes : options_.shape.window_row_bytes;
  Pos expected = range.begin;
  std::optional<BlockId> last;
  bool whole = true;
  ForEachExtent(path_, component, range, [&](const Extent& extent) {
    whole = whole && extent.range.begin == expected;
    expected = extent.range.end;
    if (last == extent.block &&
        out.back().first_row + out.back().positions.size() == extent.first_row) {
      out.back().positions.end = extent.range.end;  // two halves of one block: one movement
      return;
    }
    const ByteSpan bytes = store_->bytes(extent.block);
    out.push_back({bytes, static_cast<std::uint32_t>(bytes.size() / row_bytes), extent.first_row,
                   extent.range});
    pins.Add(extent.block);
    last = extent.block;
  });
  return whole && expected == range.end;
}

std::unique_ptr<PinState> CacheImpl::MakePin(Pos boundary, bool decoded) {
  auto pin = std::make_unique<PinState>(store_);
  pin->boundary = boundary;
  pin->decoded_result = decoded;
  const Pos pages = boundary / options_.page_tokens + 1;
  if (options_.shape.HasKv()) {
    pin->kv.reserve(pages);
    pin->pins.Reserve(pages);
    if (!AppendSlices(Component::kKv, {0, boundary}, pin->kv, pin->pins)) return nullptr;
  }
  if (options_.shape.HasWindow()) {
    const PosRange range{options_.shape.WindowBegin(boundary), boundary};
    if (!AppendSlices(Component::kWindow, range, pin->window, pin->pins)) return nullptr;
  }
  const Node* node = path_.NodeOf(boundary);
  const Point* point = node->FindPoint(boundary);
  if (options_.shape.HasSnapshot()) {
    if (point == nullptr || !point->snapshot) return nullptr;
    pin->snapshot = store_->bytes(*point->snapshot);
    pin->pins.Add(*point->snapshot);
  }
  if (decoded) {
    if (point == nullptr || !point->logits) return nullptr;
    pin->logits = store_->bytes(*point->logits);
    pin->pins.Add(*point->logits);
  }
  return pin;
}

void CacheImpl::CountLookup(const LookupQuery& query, const LookupResult& result) {
  if (query.peek) return;
  ++counters_.lookups;
  counters_.lookup_tokens += query.tokens.size();
  if (!result.hit) {
    ++counters_.misses_by_reason[static_cast<std::size_t>(result.reason)];
    return;
  }
  ++counters_.hits;
  counters_.hit_tokens += result.hit->boundary();
  if (result.hit->decoded_result()) ++counters_.decoded_result_hits;
}

Status CacheImpl::PinPrefix(const Namespace& ns, TokenSpan tokens) {
  if (off()) return Err(ErrorCode::kUnavailable, "the cache is off");
  const auto slot = index_.Find(ns);
  if (slot) index_.Walk(*slot, tokens, path_);
  if (!slot || tokens.empty() || path_.matched < tokens.size()) {
    return Err(ErrorCode::kNotFound, "this prefix is not stored as a whole");
  }
  const Pos boundary = DeepestUsable(path_, token_rules_, path_.matched);
  auto pin = boundary > 0 ? MakePin(boundary, false) : nullptr;
  if (pin == nullptr) return Err(ErrorCode::kNotFound, "no state is stored for this prefix");
  evictor_.Touch(path_, boundary, path_.matched, false);
  pinned_prefixes_.insert_or_assign(PrefixKey{ns, {tokens.begin(), tokens.end()}},
                                    PinnedPrefix{boundary, std::move(pin->pins)});
  return {};
}

// After stored state was replaced by stronger: the pins must hold what is there now.
void CacheImpl::RepinPrefixes(const Namespace& ns) {
  const auto slot = index_.Find(ns);
  for (auto& [key, pinned] : pinned_prefixes_) {
    if (key.ns != ns || !slot) continue;
    index_.Walk(*slot, key.tokens, path_);
    if (auto pin = MakePin(pinned.boundary, false)) {
      pinned.pins = std::move(pin->pins);
    } else {
      Latch("a pinned prefix is gone");
    }
  }
}

Status CacheImpl::UnpinPrefix(const Namespace& ns, TokenSpan tokens) {
  if (pinned_prefixes_.erase(PrefixKey{ns, {tokens.begin(), tokens.end()}}) == 0) {
    return Err(ErrorCode::kNotFound, "this prefix is not pinned");
  }
  return {};
}

}  // namespace skippy::cache
