#include "bench/replay.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "engine/engine.h"
#include "skippy/clock.h"
#include "skippy/prefix_cache.h"

namespace skippy::bench {
namespace {

class ReportSink final : public engine::GenerationSink {
 public:
  void OnPromptProgress(const engine::PromptReport&, std::uint32_t) override {}
  Next OnToken(Token, std::span<const float>) override { return Next::kContinue; }
  void OnFinish(const engine::GenerationReport& report) override { report_ = report; }
  bool Cancelled() const override { return false; }
  const std::optional<engine::GenerationReport>& report() const { return report_; }

 private:
  std::optional<engine::GenerationReport> report_;
};

Result<engine::PromptReport> Ask(engine::Engine& engine, engine::GenerateRequest request) {
  const auto sink = std::make_shared<ReportSink>();
  request.sink = sink;
  SKIPPY_TRY([[maybe_unused]] const RequestId id, engine.Submit(std::move(request)));
  while (!sink->report() && engine.Step()) {
  }
  if (!sink->report()) return Err(ErrorCode::kInternal, "the engine forgot a request");
  if (sink->report()->error) return tl::unexpected(*sink->report()->error);
  return sink->report()->prompt;
}

// A trace knows no messages; its blocks are where texts are put together.
std::vector<Pos> PartStarts(const Trace& trace, const TraceRequest& request) {
  std::vector<Pos> starts;
  for (std::size_t i = 1; i < request.blocks.size(); ++i)
    starts.push_back(static_cast<Pos>(i * trace.block_tokens));
  return starts;
}

void Add(const engine::PromptReport& report, ReplayResult& result) {
  ++result.requests;
  result.hits += report.cached_tokens > 0 ? 1 : 0;
  result.prompt_tokens += report.prompt_tokens;
  result.cached_tokens += report.cached_tokens;
  result.evaluated_tokens += report.evaluated_tokens;
  result.lookup_seconds += report.lookup_ms / 1e3;
  result.record_seconds += report.record_ms / 1e3;
}

void Add(const CacheStats& stats, ReplayResult& result) {
  result.evicted_bytes = stats.evicted_bytes;
  result.recorded_bytes = stats.recorded_bytes;
  result.deduplicated_bytes = stats.deduplicated_bytes;
  result.physical_bytes = stats.physical_bytes;
  result.logical_bytes = stats.logical_bytes;
  result.blocks = stats.blocks;
  result.nodes = stats.entries;
  result.snapshots = stats.snapshots;
  result.known_tokens = stats.known_tokens;
}

}  // namespace

std::uint64_t BytesOfTokens(const runtime::RuntimeInfo& info, std::uint64_t tokens) {
  const MemoryShape& shape = info.shape;
  return tokens * (shape.kv_row_bytes + shape.window_row_bytes) +
         tokens / info.chunk * shape.snapshot_bytes;
}

Result<ReplayResult> Replay(runtime::Runtime& runtime, const Trace& trace,
                            const ReplayOptions& options, const ReplayProgress& progress) {
  const runtime::RuntimeInfo& info = runtime.info();
  for (std::uint32_t lane = 0; lane < info.lanes; ++lane) runtime.Clear(SeqId{lane});
  CacheOptions cache_options;
  cache_options.shape = info.shape;
  cache_options.policy = info.policy;
  cache_options.page_tokens = options.page_tokens;
  cache_options.max_bytes = options.cap_bytes;
  cache_options.max_logits_bytes = 0;
  cache_options.eviction = options.eviction;
  for (const std::string& problem : cache_options.Validate())
    return Err(ErrorCode::kInvalidArgument, problem);
  const SteadyClock clock;
  PrefixCache cache(cache_options, clock);
  engine::EngineOptions engine_options;
  engine_options.hot_lanes = options.hot_lanes;
  engine_options.snapshot_spacing = options.snapshot_spacing;
  engine_options.snapshot_junctions = options.snapshot_junctions;
  engine::Engine engine(engine_options, runtime, cache, clock);

  ReplayResult result;
  const Tick start = clock.Now();
  for (const TraceRequest& request : trace.requests) {
    engine::GenerateRequest question;
    question.prompt = PromptOf(trace, request, info.vocab);
    if (options.snapshot_parts) question.message_starts = PartStarts(trace, request);
    SKIPPY_TRY(const engine::PromptReport report, Ask(engine, std::move(question)));
    Add(report, result);
    result.peak_bytes = std::max(result.peak_bytes, cache.Stats().physical_bytes);
    if (progress) progress(result.requests, trace.requests.size());
  }
  result.seconds = static_cast<double>(clock.Now().value - start.value) / 1e6;
  Add(cache.Stats(), result);
  return result;
}

}  // namespace skippy::bench
