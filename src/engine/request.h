// What a front end hands to the engine, and what it gets back. No text here: tokens in, tokens out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/runtime.h"
#include "skippy/prefix_cache.h"
#include "skippy/types.h"

namespace skippy::engine {

enum class HitKind : std::uint8_t { kNone, kDecodedResult, kHot, kWarm };
std::string_view HitKindName(HitKind kind);

// How the prompt was served. cached + evaluated == prompt_tokens (invariant I8). A request that
// ended before its prompt was done (cancelled, failed) reports what it got through: the sum is then
// smaller.
struct PromptReport {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;
  std::uint32_t evaluated_tokens = 0;
  std::uint32_t cached_hot = 0;  // by tier; sums to cached_tokens
  std::uint32_t cached_warm = 0;
  HitKind hit_kind = HitKind::kNone;
  MissReason miss_reason = MissReason::kNone;
  Pos first_different = 0;
  double queue_ms = 0;
  double lookup_ms = 0;
  double restore_ms = 0;
  double record_ms = 0;  // export and bookkeeping during prefill
  double prompt_ms = 0;  // from admission to the first logits
};

enum class FinishReason : std::uint8_t { kStop, kLength, kCancelled, kError };

struct GenerationReport {
  PromptReport prompt;
  FinishReason finish = FinishReason::kStop;
  std::optional<Error> error;  // exactly when finish == kError
  std::uint32_t generated_tokens = 0;
  double decode_ms = 0;
  SeqId lane{};
};

// Called on the engine thread; must be quick and must not call back into the engine.
class GenerationSink {
 public:
  enum class Next : std::uint8_t { kContinue, kStop };
  virtual ~GenerationSink() = default;
  // The prompt has been looked up (evaluated so far == 0) or advanced by a chunk.
  virtual void OnPromptProgress(const PromptReport& report, std::uint32_t processed) = 0;
  // A token was sampled; logits are those it was sampled from. kStop ends the request without
  // decoding it.
  virtual Next OnToken(Token token, std::span<const float> logits) = 0;
  // Exactly once, last.
  virtual void OnFinish(const GenerationReport& report) = 0;
  // Polled between chunks and steps: true when the client has gone.
  virtual bool Cancelled() const = 0;
};

struct GenerateRequest {
  std::vector<Token> prompt;
  std::vector<Pos>
      message_starts;  // where messages begin (or the last ends), ascending; may be empty
  std::string tenant_salt;
  std::vector<std::pair<std::uint32_t, float>> adapters;
  bool use_cache = true;  // false: no lookup, no record
  // Work ahead for a request that may come: runs while nothing else is to do, and ends as cancelled
  // within a chunk once another request comes; what it evaluated stays cached. max_tokens must be
  // 0. Not counted among the requests.
  bool idle = false;
  bool allow_decoded_result = true;
  std::uint32_t max_tokens = 0;  // 0: evaluate the prompt only
  std::unique_ptr<runtime::Sampler> sampler;
  std::shared_ptr<GenerationSink> sink;
};

}  // namespace skippy::engine
