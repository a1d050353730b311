#include "cache/tombstones.h"

namespace skippy::cache {

Tombstones::KeyBuilder::KeyBuilder(const Namespace& ns) {
  hasher_.Update(std::as_bytes(std::span(ns.key.bytes)));
}

void Tombstones::KeyBuilder::Append(TokenSpan tokens) { hasher_.Update(std::as_bytes(tokens)); }

Digest Tombstones::KeyOf(const Namespace& ns, TokenSpan prefix) {
  KeyBuilder builder(ns);
  builder.Append(prefix);
  return builder.Finish();
}

void Tombstones::Add(const Digest& key, MissReason reason) {
  if (capacity_ == 0) return;
  const auto [it, fresh] = reasons_.insert_or_assign(key, reason);
  if (!fresh) return;
  order_.push_back(key);
  if (order_.size() > capacity_) {
    reasons_.erase(order_.front());
    order_.pop_front();
  }
}

std::optional<MissReason> Tombstones::Find(const Digest& key) const {
  const auto it = reasons_.find(key);
  if (it == reasons_.end()) return std::nullopt;
  return it->second;
}

void Tombstones::Clear() {
  order_.clear();
  reasons_.clear();
}

}  // namespace skippy::cache
