// Which entry goes first: policies as small pure classes, and the ordered sets they order.
//
// Threads: single-threaded (owner). Errors: none. Cost: O(log candidates) an operation; nothing is
// scanned.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <set>

#include "skippy/cache_options.h"
#include "skippy/types.h"

namespace skippy::cache {

struct Node;

// All that a policy is told about an entry.
struct EntryFacts {
  bool spare = false;      // the entry's end can be resumed without it
  bool was_hit = false;    // since it was inserted
  std::uint64_t tick = 0;  // of the last use; later is larger
  std::uint64_t age = 0;   // EvictionPolicy::Age() at the last use
  std::uint64_t hits = 0;
  std::uint64_t tokens = 0;  // that would have to be computed again
  std::uint64_t bytes = 0;   // that it takes
};

// Smaller goes first. Within a segment the newest prompt end never goes first.
struct Rank {
  std::uint32_t segment = 0;
  std::uint64_t value = 0;
  auto operator<=>(const Rank&) const = default;
};

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  virtual Rank RankOf(const EntryFacts& facts) const = 0;
  virtual std::uint64_t Age() const { return 0; }
  virtual void OnEvict(const Rank&) {}
  // True: entries that were hit outrank all others, so their share must be bounded by demotion.
  virtual bool segmented() const { return false; }
};

// Segmented LRU: first what is to spare, whoever's it is; then entries never hit; then entries that
// were hit. So no conversation loses its end for what others can do without, and a sweep of
// one-shot prompts cannot push out a prompt in use.
class SegmentedLru final : public EvictionPolicy {
 public:
  Rank RankOf(const EntryFacts& facts) const override;
  bool segmented() const override { return true; }
  static constexpr std::uint32_t kHit = 2;  // the segment of entries that were hit
};

// GreedyDual-Size-Frequency: value = age at last use + (1 + hits) * tokens / bytes; the age rises
// to the value of what is evicted, so old merit fades.
class BenefitPerByte final : public EvictionPolicy {
 public:
  Rank RankOf(const EntryFacts& facts) const override;
  std::uint64_t Age() const override { return age_; }
  void OnEvict(const Rank& rank) override;

 private:
  std::uint64_t age_ = 0;
};

std::unique_ptr<EvictionPolicy> MakeEvictionPolicy(EvictionPolicyKind kind);

// What can be taken from an entry, in the order in which equally ranked entries lose it.
enum class UnitKind : std::uint8_t {
  kSpare = 0,       // state inside a run beside what its end needs and one step back
  kThin = 1,        // the same and that step back: all that the run's end does not need
  kLogits = 2,      // the logits at one boundary
  kTail = 3,        // the last rows of a leaf
  kLastResort = 4,  // states that are kept while anything else can go
};
inline constexpr std::size_t kUnitKindCount = 5;

struct CandidateKey {
  Rank rank;
  UnitKind kind = UnitKind::kTail;
  Pos depth = 0;             // deeper first: leaves before their bases
  std::uint64_t serial = 0;  // of the node; makes keys unique and order repeatable (invariant I12)
  Pos at = 0;                // kLogits: the boundary
  Node* node = nullptr;      // not compared

  std::strong_ordering operator<=>(const CandidateKey& other) const;
  bool operator==(const CandidateKey& other) const { return (*this <=> other) == 0; }
};

class EvictionOrder {
 public:
  using Set = std::set<CandidateKey>;
  const Set& of(UnitKind kind) const { return sets_[static_cast<std::size_t>(kind)]; }
  void Insert(const CandidateKey& key) { sets_[static_cast<std::size_t>(key.kind)].insert(key); }
  void Erase(const CandidateKey& key) { sets_[static_cast<std::size_t>(key.kind)].erase(key); }
  // Without allocation. REQUIRES: same kind, `from` is present.
  void Move(const CandidateKey& from, const CandidateKey& to);

 private:
  std::array<Set, kUnitKindCount> sets_;
};

// Visits candidates of the given kinds in order until one is taken. Single pass: the order must not
// change before `take` returns true.
template <class Take>
bool VisitInOrder(const EvictionOrder& order, std::initializer_list<UnitKind> kinds, Take take) {
  std::array<std::pair<EvictionOrder::Set::const_iterator, EvictionOrder::Set::const_iterator>,
             kUnitKindCount>
      heads;
  std::size_t count = 0;
  for (const UnitKind kind : kinds) heads[count++] = {order.of(kind).begin(), order.of(kind).end()};
  for (;;) {
    std::size_t best = count;
    for (std::size_t i = 0; i < count; ++i) {
      if (heads[i].first == heads[i].second) continue;
      if (best == count || *heads[i].first < *heads[best].first) best = i;
    }
    if (best == count) return false;
    if (take(*heads[best].first)) return true;
    ++heads[best].first;
  }
}

}  // namespace skippy::cache
