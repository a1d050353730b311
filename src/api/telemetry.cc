#include "api/telemetry.h"

#include <algorithm>

namespace skippy::api {

void Telemetry::Record(const engine::GenerationReport& report) {
  const engine::PromptReport& prompt = report.prompt;
  const std::lock_guard lock(mutex_);
  totals_.prompt_tokens += prompt.evaluated_tokens;
  totals_.prompt_tokens_cached += prompt.cached_tokens;
  totals_.predicted_tokens += report.generated_tokens;
  const double predicted_seconds = report.decode_ms / 1000;
  totals_.predicted_seconds += predicted_seconds;
  totals_.longest_sequence = std::max<std::uint64_t>(
      totals_.longest_sequence, std::uint64_t{prompt.prompt_tokens} + report.generated_tokens);
  // The first token costs no decoding, and a prompt answered from the cache no evaluation.
  if (prompt.evaluated_tokens > 0) {
    totals_.prompt_seconds += prompt.prompt_ms / 1000;
    totals_.prompt_window.tokens += prompt.evaluated_tokens;
    totals_.prompt_window.seconds += prompt.prompt_ms / 1000;
  }
  if (report.generated_tokens > 1) {
    totals_.predicted_window.tokens += report.generated_tokens - 1;
    totals_.predicted_window.seconds += predicted_seconds;
  }
}

TelemetrySnapshot Telemetry::Snapshot(bool reset_windows) {
  const std::lock_guard lock(mutex_);
  TelemetrySnapshot copy = totals_;
  if (reset_windows) {
    totals_.prompt_window = {};
    totals_.predicted_window = {};
  }
  return copy;
}

}  // namespace skippy::api
