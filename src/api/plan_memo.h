// Remembers how request bodies were parsed, so that an exact repeat of a body costs neither
// template nor tokenizer: with llama.cpp's templates that is most of the time to a first token that
// comes from the cache.
//
// Thread-safe. Bounded by entries and bytes, least recently used first. Only what the body alone
// decides may be put in: bodies of templates that ask for the date are not (the caller's business).
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "api/completion_plan.h"
#include "skippy/digest.h"

namespace skippy::api {

class PlanMemo {
 public:
  static constexpr std::size_t kMaxEntries = 256;
  static constexpr std::size_t kMaxBytes = std::size_t{16} << 20U;

  static Digest Key(std::string_view endpoint, std::string_view body);

  std::optional<CompletionPlan> Find(const Digest& key);
  void Insert(const Digest& key, const CompletionPlan& plan, std::size_t body_bytes);

 private:
  struct Entry {
    Digest key;
    CompletionPlan plan;
    std::size_t bytes;
  };

  std::mutex mutex_;
  std::list<Entry> entries_;  // most recent first
  std::unordered_map<Digest, std::list<Entry>::iterator> index_;
  std::size_t bytes_ = 0;
};

}  // namespace skippy::api
