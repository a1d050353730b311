#include "api/metrics.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/metrics_text.h"
#include "skippy/prefix_cache.h"

namespace skippy::api {
namespace {

double D(std::uint64_t value) { return static_cast<double>(value); }

// llama-server's names, so that its dashboards go on working.
void AddLlamaNames(MetricsText& out, const TelemetrySnapshot& seen,
                   const engine::EngineStats& engine) {
  out.Counter("llamacpp:prompt_tokens_total",
              "Number of prompt tokens processed, excluding cached tokens", D(seen.prompt_tokens));
  out.Counter("llamacpp:prompt_tokens_cached_total",
              "Number of prompt tokens reused from the cache", D(seen.prompt_tokens_cached));
  out.Counter("llamacpp:prompt_seconds_total", "Total time spent processing prompts",
              seen.prompt_seconds);
  out.Counter("llamacpp:tokens_predicted_total", "Number of generation tokens processed",
              D(seen.predicted_tokens));
  out.Counter("llamacpp:tokens_predicted_seconds_total", "Total time spent generating tokens",
              seen.predicted_seconds);
  out.Counter("llamacpp:n_decode_total", "Total number of forward passes", D(engine.decode_calls));
  out.Counter("llamacpp:n_tokens_max", "Largest observed sequence length (prompt + generation)",
              D(seen.longest_sequence));
  out.Gauge("llamacpp:prompt_tokens_seconds", "Average prompt throughput in tokens/s",
            seen.prompt_window.PerSecond());
  out.Gauge("llamacpp:predicted_tokens_seconds", "Average generation throughput in tokens/s",
            seen.predicted_window.PerSecond());
  out.Gauge("llamacpp:requests_processing", "Number of requests processing", D(engine.running));
  for (const char* name : {"num_draft_tokens", "num_accepted_tokens", "num_drafts"}) {
    out.Counter(fmt::format("llamacpp:spec_decode_{}_total", name),
                "Speculative decoding: not in use", 0);
  }
  out.Gauge("llamacpp:n_busy_slots_per_decode",
            "Average number of generated tokens per forward pass",
            engine.decode_calls > 0 ? D(engine.generated_tokens) / D(engine.decode_calls) : 0);
  out.Gauge("llamacpp:requests_deferred", "Number of requests deferred", D(engine.queued));
}

void AddRequests(MetricsText& out, const engine::EngineStats& engine) {
  out.Gauge("skippy_num_requests_waiting", "Requests in the queue", D(engine.queued));
  out.Gauge("skippy_num_requests_running", "Requests in a lane", D(engine.running));
  out.BeginCounter("skippy_requests_total", "Requests by how they ended");
  out.Sample({{"outcome", "finished"}}, D(engine.finished));
  out.Sample({{"outcome", "cancelled"}}, D(engine.cancelled));
  out.Sample({{"outcome", "failed"}}, D(engine.failed));
  out.Sample({{"outcome", "rejected"}}, D(engine.rejected));
  out.Counter("skippy_shared_prefill_waits_total",
              "Requests that waited for another one's common prefix",
              D(engine.shared_prefill_waits));
}

// vLLM's semantics: tokens asked for and tokens found.
void AddReuse(MetricsText& out, const engine::EngineStats& engine) {
  const std::uint64_t cached =
      engine.cached_hot_tokens + engine.cached_warm_tokens + engine.cached_decoded_tokens;
  out.Counter("skippy_prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache",
              D(engine.prompt_tokens));
  out.Counter("skippy_prefix_cache_hits_total", "Prompt tokens found in the prefix cache",
              D(cached));
  out.BeginCounter("skippy_prompt_tokens_by_source_total",
                   "Prompt tokens by where their state came from");
  out.Sample({{"source", "cached"}}, D(cached));
  out.Sample({{"source", "evaluated"}}, D(engine.evaluated_tokens));
  out.Counter("skippy_recomputed_tokens_total",
              "Prompt tokens evaluated once more to recover from a fault; in no request's usage",
              D(engine.recomputed_tokens));
  out.BeginCounter("skippy_cached_tokens_total", "Cached prompt tokens by tier");
  out.Sample({{"cache_source", "device"}}, D(engine.cached_hot_tokens));
  out.Sample({{"cache_source", "host"}}, D(engine.cached_warm_tokens));
  out.Sample({{"cache_source", "decoded_result"}}, D(engine.cached_decoded_tokens));
  out.BeginCounter("skippy_requests_by_hit_kind_total", "Requests by how their prompt was served");
  for (std::size_t kind = 0; kind < std::size(engine.hits_by_kind); ++kind) {
    out.Sample({{"hit_kind", engine::HitKindName(static_cast<engine::HitKind>(kind))}},
               D(engine.hits_by_kind[kind]));
  }
  out.Counter("skippy_idle_prefills_total", "Finished turns evaluated ahead (--idle-prefill)",
              D(engine.idle_runs));
  out.Counter("skippy_idle_evaluated_tokens_total", "Tokens evaluated ahead; in no request's usage",
              D(engine.idle_evaluated_tokens));
  out.Counter("skippy_generated_tokens_total", "Tokens generated", D(engine.generated_tokens));
  out.Counter("skippy_restores_total", "Prefixes restored into a lane", D(engine.restores));
  out.Counter("skippy_restore_failures_total", "Restores that failed and were evaluated instead",
              D(engine.restore_failures));
  out.Counter("skippy_restored_bytes_total", "Bytes restored into lanes", D(engine.restored_bytes));
  out.Counter("skippy_restore_seconds_total", "Time spent restoring", engine.restore_seconds);
}

void AddStore(MetricsText& out, const CacheStats& cache) {
  out.BeginCounter("skippy_prefix_cache_misses_total", "Lookups without a hit, by reason");
  for (std::size_t reason = 1; reason < cache.misses_by_reason.size(); ++reason) {
    out.Sample({{"reason", MissReasonName(static_cast<MissReason>(reason))}},
               D(cache.misses_by_reason[reason]));
  }
  out.Counter("skippy_prefix_cache_lookups_total", "Lookups", D(cache.lookups));
  out.Counter("skippy_evicted_tokens_total", "Tokens whose state was evicted",
              D(cache.evicted_tokens));
  out.Counter("skippy_evicted_bytes_total", "Bytes evicted", D(cache.evicted_bytes));
  out.Counter("skippy_evicted_snapshots_total", "Recurrent snapshots evicted",
              D(cache.evicted_snapshots));
  out.Counter("skippy_recorded_bytes_total", "Bytes recorded", D(cache.recorded_bytes));
  out.Counter("skippy_deduplicated_bytes_total", "Bytes not stored because an equal block existed",
              D(cache.deduplicated_bytes));
  out.BeginCounter("skippy_records_total", "Records by outcome");
  out.Sample({{"outcome", "committed"}}, D(cache.records));
  out.Sample({{"outcome", "too_large"}}, D(cache.records_refused_too_large));
  out.Sample({{"outcome", "no_room"}}, D(cache.records_refused_no_room));
  out.Sample({{"outcome", "aborted"}}, D(cache.records_aborted));
  out.Counter("skippy_condemned_total", "Entries erased because they could not be restored",
              D(cache.condemned));
  out.Gauge("skippy_kv_cache_usage_perc", "Share of the host tier in use, 0 to 1",
            cache.max_bytes > 0 ? D(cache.physical_bytes) / D(cache.max_bytes) : 0);
  out.Gauge("skippy_cache_physical_bytes", "Bytes held, shared blocks counted once",
            D(cache.physical_bytes));
  out.Gauge("skippy_cache_logical_bytes", "Bytes the entries would take without sharing",
            D(cache.logical_bytes));
  out.Gauge("skippy_cache_max_bytes", "Cap of the host tier", D(cache.max_bytes));
  out.Gauge("skippy_cache_entries", "Nodes of the index", D(cache.entries));
  out.Gauge("skippy_cache_blocks", "Blocks held", D(cache.blocks));
  out.Gauge("skippy_cache_snapshots", "Recurrent snapshots held", D(cache.snapshots));
  out.Gauge("skippy_cache_enabled", "1: the cache is on; 0: latched off",
            cache.latched.empty() ? 1 : 0);
}

}  // namespace

CacheStats ReadCacheStats(ServerState& state) {
  CacheStats stats;
  state.engine.Call([&](PrefixCache& cache, runtime::Runtime&) { stats = cache.Stats(); });
  return stats;
}

std::string RenderMetrics(ServerState& state) {
  const engine::EngineStats engine = state.engine.Stats();
  MetricsText out;
  AddLlamaNames(out, state.telemetry.Snapshot(true), engine);
  AddRequests(out, engine);
  AddReuse(out, engine);
  AddStore(out, ReadCacheStats(state));
  out.BeginGauge("skippy_cache_config_info", "How this model is cached");
  out.Sample({{"policy", PayloadPolicyName(state.info.policy)},
              {"lanes", std::to_string(state.info.lanes)},
              {"context", std::to_string(state.info.context)},
              {"chunk", std::to_string(state.info.chunk)}},
             1);
  return out.text();
}

std::string ReuseWords(const runtime::RuntimeInfo& info) {
  if (info.policy == PayloadPolicy::kOff) {
    return "off: " +
           (info.policy_reason.empty() ? std::string("the cache is disabled") : info.policy_reason);
  }
  if (info.shape.HasSnapshot()) {
    return fmt::format(
        "at stored boundaries only: recurrent memory cannot be cut back, so a prefix is reused up "
        "to the "
        "last snapshot in it (message starts, ends of prompts and answers, and points between)");
  }
  if (info.shape.HasWindow()) {
    return fmt::format("at any token whose last {} tokens of window rows are stored",
                       info.shape.window_tokens);
  }
  return "at any token";
}

}  // namespace skippy::api
