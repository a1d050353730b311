// Replays of one trace under several policies and caps, as a table and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/optimum.h"
#include "bench/replay.h"

namespace skippy::bench {

struct ReplayRow {
  std::string policy;
  std::uint64_t cap_tokens = 0;
  std::uint64_t cap_bytes = 0;
  ReplayResult result;
  Optimum optimum;  // that knows the future, under the same cap
};

struct ReplayReport {
  std::string trace;    // as it was named
  std::string runtime;  // a model file, or the shape of the fake runtime
  std::uint32_t block_tokens = 0;
  std::uint32_t chunk = 0;
  std::uint32_t page_tokens = 0;
  std::uint64_t snapshot_bytes = 0;  // of one; 0: this memory has none
  std::string snapshots_at;          // where they are taken, in words; empty: none
  std::uint64_t requests = 0;
  std::uint64_t prompt_tokens = 0;
  Optimum perfect;  // without a cap
  std::vector<ReplayRow> rows;
};

std::string ReplayTable(const ReplayReport& report);
// Schema "skippy-replay", version 1.
std::string ReplayJson(const ReplayReport& report);

}  // namespace skippy::bench
