// Tombstones: a bounded memory of prefixes that were evicted or refused, for the miss reason only.
//
// A key stands for a prefix and the one token after it that the index forgot. When the bound is
// reached the oldest is dropped: the reason then degrades to "never seen" or "diverged"; an
// eviction is never invented. Keys are always BLAKE3, not the configurable block digest, because
// here nothing is compared afterwards.
//
// Threads: single-threaded (owner). Errors: none. Cost: KeyOf hashes the prefix (about 10 us per 8k
// tokens).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

#include "skippy/digest.h"
#include "skippy/identity.h"
#include "skippy/prefix_cache.h"

namespace skippy::cache {

class Tombstones {
 public:
  explicit Tombstones(std::uint32_t capacity) : capacity_(capacity) {}

  // Hashes a prefix that lies in pieces.
  class KeyBuilder {
   public:
    explicit KeyBuilder(const Namespace& ns);
    void Append(TokenSpan tokens);
    Digest Finish() const { return hasher_.Finish(); }

   private:
    Blake3Hasher hasher_;
  };
  static Digest KeyOf(const Namespace& ns, TokenSpan prefix);

  bool empty() const { return order_.empty(); }
  std::size_t size() const { return order_.size(); }
  void Add(const Digest& key, MissReason reason);
  std::optional<MissReason> Find(const Digest& key) const;
  void Clear();

 private:
  const std::uint32_t capacity_;
  std::deque<Digest> order_;  // oldest first
  std::unordered_map<Digest, MissReason> reasons_;
};

}  // namespace skippy::cache
