#include "bench/flat_replay.h"

#include <algorithm>

#include "skippy/clock.h"

namespace skippy::bench {

ReplayResult ReplayFlat(const Trace& trace, std::uint32_t vocabulary, const FlatOptions& options) {
  const SteadyClock clock;
  FlatIndex index(options);
  ReplayResult result;
  const auto since = [&](Tick start) {
    return static_cast<double>(clock.Now().value - start.value) / 1e6;
  };
  const Tick start = clock.Now();
  for (const TraceRequest& request : trace.requests) {
    const std::vector<Token> prompt = PromptOf(trace, request, vocabulary);
    const Tick asked = clock.Now();
    const Pos boundary = index.Lookup(prompt, static_cast<Pos>(prompt.size() - 1)).boundary();
    result.lookup_seconds += since(asked);
    const Tick recorded = clock.Now();
    index.Record(prompt);
    result.record_seconds += since(recorded);
    ++result.requests;
    result.hits += boundary > 0 ? 1 : 0;
    result.prompt_tokens += prompt.size();
    result.cached_tokens += boundary;
    result.evaluated_tokens += prompt.size() - boundary;
    result.peak_bytes = std::max(result.peak_bytes, index.rows() * options.row_bytes);
  }
  result.evicted_bytes = index.evicted_rows() * options.row_bytes;
  result.physical_bytes = index.rows() * options.row_bytes;
  result.logical_bytes = result.physical_bytes;
  result.blocks = index.pages();
  result.known_tokens = index.rows();
  result.seconds = since(start);
  return result;
}

}  // namespace skippy::bench
