// Counters of finished requests that neither engine nor cache keep: throughput windows and totals
// in llama-server's words. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>

#include "engine/request.h"

namespace skippy::api {

struct Throughput {
  std::uint64_t tokens = 0;
  double seconds = 0;
  double PerSecond() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
};

struct TelemetrySnapshot {
  std::uint64_t prompt_tokens = 0;  // evaluated
  std::uint64_t prompt_tokens_cached = 0;
  double prompt_seconds = 0;
  std::uint64_t predicted_tokens = 0;
  double predicted_seconds = 0;
  std::uint64_t longest_sequence = 0;  // prompt + answer
  Throughput prompt_window;            // since the previous snapshot with reset
  Throughput predicted_window;
};

class Telemetry {
 public:
  void Record(const engine::GenerationReport& report);
  // `reset_windows`: the next windows begin here (a metrics scrape).
  TelemetrySnapshot Snapshot(bool reset_windows);

 private:
  std::mutex mutex_;
  TelemetrySnapshot totals_;
};

}  // namespace skippy::api
