#include "cache/eviction.h"

#include <algorithm>
#include <limits>

namespace skippy::cache {
namespace {

// Fixed point: a token a byte is 2^24. Rows of a gigabyte still differ from each other.
constexpr std::uint64_t kScale = std::uint64_t{1} << 24;
constexpr std::uint64_t kMaxValue = std::uint64_t{1} << 62;

}  // namespace

Rank SegmentedLru::RankOf(const EntryFacts& facts) const {
  if (facts.spare) return {0, facts.tick};
  return {facts.was_hit ? kHit : 1U, facts.tick};
}

Rank BenefitPerByte::RankOf(const EntryFacts& facts) const {
  const std::uint64_t bytes = std::max<std::uint64_t>(facts.bytes, 1);
  const auto product =
      static_cast<unsigned __int128>(facts.hits + 1) * facts.tokens * kScale / bytes;
  const auto value = std::min<unsigned __int128>(product + facts.age, kMaxValue);
  return {0, static_cast<std::uint64_t>(value)};
}

void BenefitPerByte::OnEvict(const Rank& rank) { age_ = std::max(age_, rank.value); }

std::unique_ptr<EvictionPolicy> MakeEvictionPolicy(EvictionPolicyKind kind) {
  if (kind == EvictionPolicyKind::kBenefitPerByte) return std::make_unique<BenefitPerByte>();
  return std::make_unique<SegmentedLru>();
}

std::strong_ordering CandidateKey::operator<=>(const CandidateKey& other) const {
  if (const auto c = rank <=> other.rank; c != 0) return c;
  if (const auto c = kind <=> other.kind; c != 0) return c;
  if (const auto c = other.depth <=> depth; c != 0) return c;
  if (const auto c = serial <=> other.serial; c != 0) return c;
  return other.at <=> at;
}

void EvictionOrder::Move(const CandidateKey& from, const CandidateKey& to) {
  Set& set = sets_[static_cast<std::size_t>(from.kind)];
  auto handle = set.extract(from);
  handle.value() = to;
  set.insert(std::move(handle));
}

}  // namespace skippy::cache
