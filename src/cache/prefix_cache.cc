#include "skippy/prefix_cache.h"

#include "cache/cache_impl.h"

namespace skippy {

std::string_view MissReasonName(MissReason reason) {
  switch (reason) {
    case MissReason::kNone: return "none";
    case MissReason::kNeverSeen: return "never_seen";
    case MissReason::kDiverged: return "diverged";
    case MissReason::kEvicted: return "evicted";
    case MissReason::kNoBoundaryState: return "no_boundary_state";
    case MissReason::kBelowMin: return "below_min";
    case MissReason::kDisabled: return "disabled";
    case MissReason::kCorrupt: return "corrupt";
  }
  return "unknown";
}

PinnedHit::PinnedHit(std::unique_ptr<cache::PinState> state) : state_(std::move(state)) {}
PinnedHit::PinnedHit(PinnedHit&&) noexcept = default;
PinnedHit& PinnedHit::operator=(PinnedHit&&) noexcept = default;
PinnedHit::~PinnedHit() = default;

// A moved-from hit covers nothing.
Pos PinnedHit::boundary() const { return state_ ? state_->boundary : 0; }
bool PinnedHit::decoded_result() const { return state_ && state_->decoded_result; }
std::span<const RowSlice> PinnedHit::kv() const {
  return state_ ? std::span<const RowSlice>(state_->kv) : std::span<const RowSlice>();
}
std::span<const RowSlice> PinnedHit::window() const {
  return state_ ? std::span<const RowSlice>(state_->window) : std::span<const RowSlice>();
}
ByteSpan PinnedHit::snapshot() const { return state_ ? state_->snapshot : ByteSpan(); }
ByteSpan PinnedHit::logits() const { return state_ ? state_->logits : ByteSpan(); }

RecordTicket::RecordTicket(std::unique_ptr<cache::TicketState> state) : state_(std::move(state)) {}
RecordTicket::RecordTicket(RecordTicket&&) noexcept = default;
RecordTicket& RecordTicket::operator=(RecordTicket&&) noexcept = default;
RecordTicket::~RecordTicket() = default;

std::span<const RecordTicket::Rows> RecordTicket::rows() const {
  return state_ ? std::span<const Rows>(state_->rows) : std::span<const Rows>();
}
MutableByteSpan RecordTicket::snapshot() const {
  return state_ && state_->snapshot ? state_->snapshot->span() : MutableByteSpan();
}
MutableByteSpan RecordTicket::logits() const {
  return state_ && state_->logits ? state_->logits->span() : MutableByteSpan();
}

PrefixCache::PrefixCache(const CacheOptions& options, const Clock&)
    : impl_(std::make_unique<cache::CacheImpl>(options)) {}
PrefixCache::~PrefixCache() = default;

LookupResult PrefixCache::Lookup(const LookupQuery& query) { return impl_->Lookup(query); }
RecordPlan PrefixCache::BeginRecord(const RecordRequest& request) {
  return impl_->BeginRecord(request);
}
Status PrefixCache::Commit(RecordTicket ticket) {
  return impl_->Commit(cache::CacheImpl::Take(ticket));
}
void PrefixCache::Condemn(PinnedHit hit) {
  const auto pin = cache::CacheImpl::Take(hit);
  if (pin) impl_->Condemn(*pin, pin->pins.ids());
}
void PrefixCache::Condemn(PinnedHit hit, const HitParts& parts) {
  const auto pin = cache::CacheImpl::Take(hit);
  if (pin) impl_->Condemn(*pin, cache::BlocksOf(*pin, parts));
}
Status PrefixCache::PinPrefix(const Namespace& ns, TokenSpan tokens) {
  return impl_->PinPrefix(ns, tokens);
}
Status PrefixCache::UnpinPrefix(const Namespace& ns, TokenSpan tokens) {
  return impl_->UnpinPrefix(ns, tokens);
}
void PrefixCache::Clear() { impl_->Clear(); }
void PrefixCache::ClearNamespace(const Namespace& ns) { impl_->ClearNamespace(ns); }
CacheStats PrefixCache::Stats() const { return impl_->Stats(); }
const CacheOptions& PrefixCache::options() const { return impl_->options(); }
Status PrefixCache::SelfCheck() { return impl_->SelfCheck(); }

}  // namespace skippy
