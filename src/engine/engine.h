// Engine: lanes, chunked prefill, restore, record, generate, cancel. The only place where cache and
// runtime meet, and the only thread that touches either (invariant I9).
//
// Scheduling: each Step() admits waiting requests to free lanes, runs at most one prefill chunk and
// then one decode pass over all generating lanes. So a long prefill delays the others' next token
// by at most one chunk, and a new request's first chunk waits for at most one decode pass.
//
// Requests that share a prefix: a request whose prompt has a longer common prefix with a prompt now
// being prefilled than the cache can serve waits until that prefill has recorded the common
// boundary.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "engine/request.h"
#include "runtime/runtime.h"
#include "skippy/clock.h"
#include "skippy/prefix_cache.h"
#include "skippy/result.h"

namespace skippy::engine {

struct EngineOptions {
  std::uint32_t max_queue = 64;  // waiting requests; beyond: kResourceExhausted (HTTP 429)
  Exactness exactness = Exactness::kToken;
  bool cache = true;
  // Recurrent shapes: a snapshot at least every so many tokens, rounded up to the chunk; 0: none
  // for its own sake. The default, each chunk, loses less than a chunk a branch; the store thins
  // snapshots out when bytes get short.
  std::uint32_t snapshot_spacing = 1;
  // And where a prompt parts from what is stored, so that the next one that shares it resumes
  // there.
  bool snapshot_junctions = true;
  bool share_prefill = true;
  bool hot_lanes = true;  // go on in a lane that still holds the conversation
};

struct LaneStatus {
  SeqId lane{};
  bool busy = false;
  RequestId request{};
  std::uint32_t resident_tokens = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t prompt_processed = 0;
  std::uint32_t generated = 0;
};

// Token counters are sums over the reports of requests that have ended: evaluated + cached_* ==
// prompt_tokens.
struct EngineStats {
  std::uint64_t requests = 0, finished = 0, cancelled = 0, failed = 0, rejected = 0;
  std::uint64_t prompt_tokens = 0, evaluated_tokens = 0, generated_tokens = 0;
  std::uint64_t cached_hot_tokens = 0, cached_warm_tokens = 0, cached_decoded_tokens = 0;
  std::uint64_t recomputed_tokens = 0;  // evaluated once more to recover from a fault; in no report
  std::uint64_t hits_by_kind[4] = {};   // of admitted requests, indexed by HitKind
  std::uint64_t restores = 0, restore_failures = 0, restored_bytes = 0;
  std::uint64_t records_failed = 0;  // an export or a commit failed; the requests went on
  std::uint64_t decode_calls = 0;    // forward passes
  std::uint64_t shared_prefill_waits = 0;
  double prompt_seconds = 0, decode_seconds = 0, restore_seconds = 0;
  std::uint32_t queued = 0, running = 0;  // gauges
  // Idle work (GenerateRequest::idle) is in none of the above but the forward passes, restores and
  // records.
  std::uint64_t idle_runs = 0, idle_evaluated_tokens = 0;
};

// What a lookup would do for a prompt, without doing it.
struct DryRun {
  Pos boundary = 0;
  HitKind kind = HitKind::kNone;
  MissReason reason = MissReason::kNone;
  Pos first_different = 0;
};

class Engine {
 public:
  // Both must outlive the engine. The engine owns their thread from Start() to Stop(); before and
  // after, tests may drive Step() themselves.
  Engine(const EngineOptions& options, runtime::Runtime& runtime, PrefixCache& cache,
         const Clock& clock);
  ~Engine();  // stops

  // Thread-safe. kInvalidArgument: empty prompt, prompt over the context (message has both
  // numbers), token ids outside the vocabulary, unknown adapter. kResourceExhausted: queue full
  // (idle work has a short one of its own). kUnavailable: stopping. On error the sink is not
  // called. The sink is otherwise called until OnFinish.
  Result<RequestId> Submit(GenerateRequest request);
  // Thread-safe, idempotent; takes effect within one chunk or step.
  void Cancel(RequestId id);

  // Thread-safe: runs `fn` on the engine thread between two steps (inspection, clearing,
  // self-check). When the engine is not started it runs at once on the caller's thread.
  void Call(const std::function<void(PrefixCache&, runtime::Runtime&)>& fn);

  // Thread-safe: empties idle lanes, so that nothing is left to go on with (for resetting the
  // cache).
  void ForgetIdleLanes();

  // Thread-safe; as of the last step.
  EngineStats Stats();
  std::vector<LaneStatus> Lanes();
  // Thread-safe. What a lookup would do now; errors as Submit.
  Result<DryRun> Peek(TokenSpan prompt, const std::string& tenant_salt,
                      std::span<const std::pair<std::uint32_t, float>> adapters);

  void Start();  // runs the loop on a thread of its own
  void Stop();   // finishes nothing new: cancels all, joins
  bool Step();   // one round; false: nothing to do

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace skippy::engine
