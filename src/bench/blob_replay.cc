#include "bench/blob_replay.h"

#include <algorithm>
#include <list>
#include <unordered_map>

namespace skippy::bench {
namespace {

struct Blob {
  const TraceRequest* prompt = nullptr;
  std::uint64_t tokens() const { return prompt->input_tokens; }
};

std::size_t CommonBlocks(const TraceRequest& a, const TraceRequest& b) {
  const auto end =
      std::mismatch(a.blocks.begin(), a.blocks.end(), b.blocks.begin(), b.blocks.end());
  return static_cast<std::size_t>(end.first - a.blocks.begin());
}

class BlobStore {
 public:
  BlobStore(std::uint32_t block_tokens, const BlobOptions& options)
      : block_tokens_(block_tokens),
        cap_(options.cap_tokens),
        spare_(options.without_last_block ? 1 : 0) {}

  std::uint64_t tokens() const { return tokens_; }
  std::uint64_t evicted() const { return evicted_; }
  std::size_t size() const { return blobs_.size(); }

  // Tokens that `prompt` shares with the blob it shares most with, which is then the newest.
  std::uint64_t Use(const TraceRequest& prompt) {
    auto best = blobs_.end();
    std::size_t most = 0;
    for (auto it = blobs_.begin(); it != blobs_.end(); ++it) {
      const std::size_t common = CommonBlocks(prompt, *it->prompt);
      if (common > most) {
        most = common;
        best = it;
      }
    }
    if (best != blobs_.end()) blobs_.splice(blobs_.begin(), blobs_, best);
    return std::min<std::uint64_t>(most * std::uint64_t{block_tokens_}, prompt.input_tokens);
  }

  void Store(const TraceRequest& prompt) {
    if (prompt.input_tokens > cap_) return;
    for (auto it = blobs_.begin(); it != blobs_.end();) {
      const bool contained =
          CommonBlocks(prompt, *it->prompt) + spare_ >= it->prompt->blocks.size();
      if (contained) tokens_ -= it->tokens();
      it = contained ? blobs_.erase(it) : std::next(it);
    }
    for (; tokens_ + prompt.input_tokens > cap_; blobs_.pop_back()) {
      tokens_ -= blobs_.back().tokens();
      evicted_ += blobs_.back().tokens();
    }
    blobs_.push_front({&prompt});
    tokens_ += prompt.input_tokens;
  }

  // An id names a block together with all before it.
  std::uint64_t DistinctTokens() const {
    std::unordered_map<std::uint64_t, std::uint64_t> sizes;
    for (const Blob& blob : blobs_) {
      std::uint64_t left = blob.tokens();
      for (const std::uint64_t id : blob.prompt->blocks) {
        const std::uint64_t size = std::min<std::uint64_t>(left, block_tokens_);
        sizes[id] = size;
        left -= size;
      }
    }
    std::uint64_t sum = 0;
    for (const auto& [id, size] : sizes) sum += size;
    return sum;
  }

 private:
  const std::uint32_t block_tokens_;
  const std::uint64_t cap_;
  const std::size_t spare_;  // blocks that need not be contained
  std::list<Blob> blobs_;    // newest first
  std::uint64_t tokens_ = 0;
  std::uint64_t evicted_ = 0;
};

}  // namespace

ReplayResult ReplayBlobs(const Trace& trace, const BlobOptions& options) {
  BlobStore store(trace.block_tokens, options);
  ReplayResult result;
  for (const TraceRequest& request : trace.requests) {
    // A prompt must evaluate its last token.
    const std::uint64_t cached =
        std::min<std::uint64_t>(store.Use(request), request.input_tokens - 1);
    store.Store(request);
    ++result.requests;
    result.hits += cached > 0 ? 1 : 0;
    result.prompt_tokens += request.input_tokens;
    result.cached_tokens += cached;
    result.evaluated_tokens += request.input_tokens - cached;
    result.peak_bytes = std::max(result.peak_bytes, store.tokens() * options.row_bytes);
  }
  result.evicted_bytes = store.evicted() * options.row_bytes;
  result.physical_bytes = store.tokens() * options.row_bytes;
  result.logical_bytes = result.physical_bytes;
  result.blocks = store.size();
  result.known_tokens = store.DistinctTokens();
  return result;
}

}  // namespace skippy::bench
