#include "api/plan_memo.h"

#include <span>

namespace skippy::api {

Digest PlanMemo::Key(std::string_view endpoint, std::string_view body) {
  Blake3Hasher hasher;
  hasher.Update(std::as_bytes(std::span(endpoint.data(), endpoint.size())));
  // A byte that no path contains keeps path and body apart.
  constexpr std::byte kEnd{0};
  hasher.Update({&kEnd, 1});
  hasher.Update(std::as_bytes(std::span(body.data(), body.size())));
  return hasher.Finish();
}

std::optional<CompletionPlan> PlanMemo::Find(const Digest& key) {
  const std::lock_guard lock(mutex_);
  const auto it = index_.find(key);
  if (it == index_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, it->second);
  return it->second->plan;
}

void PlanMemo::Insert(const Digest& key, const CompletionPlan& plan, std::size_t body_bytes) {
  // Grammars and parsers of answers are made from the body and a few times its size.
  std::size_t bytes = 4096 + 4 * body_bytes;
  for (const PromptPlan& prompt : plan.prompts) bytes += prompt.tokens.size() * sizeof(Token);
  if (bytes > kMaxBytes / 4) return;
  const std::lock_guard lock(mutex_);
  if (index_.contains(key)) return;
  entries_.push_front({key, plan, bytes});
  index_[key] = entries_.begin();
  bytes_ += bytes;
  while (entries_.size() > kMaxEntries || bytes_ > kMaxBytes) {
    bytes_ -= entries_.back().bytes;
    index_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

}  // namespace skippy::api
