#include "bench/replay_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace skippy::bench {
namespace {

using nlohmann::json;

constexpr double kMib = 1024.0 * 1024.0;

double Share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

json Of(const Optimum& optimum) {
  return {{"evaluated_tokens", optimum.evaluated_tokens}, {"cached_tokens", optimum.cached_tokens}};
}

json Of(const ReplayRow& row) {
  const ReplayResult& result = row.result;
  return {{"policy", row.policy},
          {"cap_tokens", row.cap_tokens},
          {"cap_bytes", row.cap_bytes},
          {"requests", result.requests},
          {"hits", result.hits},
          {"prompt_tokens", result.prompt_tokens},
          {"cached_tokens", result.cached_tokens},
          {"evaluated_tokens", result.evaluated_tokens},
          {"peak_bytes", result.peak_bytes},
          {"evicted_bytes", result.evicted_bytes},
          {"recorded_bytes", result.recorded_bytes},
          {"deduplicated_bytes", result.deduplicated_bytes},
          {"physical_bytes", result.physical_bytes},
          {"logical_bytes", result.logical_bytes},
          {"blocks", result.blocks},
          {"nodes", result.nodes},
          {"snapshots", result.snapshots},
          {"known_tokens", result.known_tokens},
          {"lookup_seconds", result.lookup_seconds},
          {"record_seconds", result.record_seconds},
          {"seconds", result.seconds},
          {"optimum", Of(row.optimum)}};
}

}  // namespace

std::string ReplayTable(const ReplayReport& report) {
  std::string text = fmt::format(
      "{}: {} requests, {} prompt tokens, {} of them new to a perfect prefix tree\n"
      "on {}, chunks of {}, pages of {}{}\n\n"
      "{:<10}{:>14}{:>12}{:>12}{:>12}{:>16}{:>12}{:>14}{:>10}\n",
      report.trace, report.requests, report.prompt_tokens, report.perfect.evaluated_tokens,
      report.runtime, report.chunk, report.page_tokens,
      report.snapshots_at.empty() ? "" : ", snapshots " + report.snapshots_at, "policy",
      "cap (tokens)", "cap (MiB)", "cached", "optimum", "evaluated", "optimum x", "evicted MiB",
      "seconds");
  for (const ReplayRow& row : report.rows) {
    const ReplayResult& result = row.result;
    text += fmt::format(
        "{:<10}{:>14}{:>12.1f}{:>11.1f}%{:>11.1f}%{:>16}{:>12.3f}{:>14.1f}{:>10.1f}\n", row.policy,
        row.cap_tokens, static_cast<double>(row.cap_bytes) / kMib,
        100 * Share(result.cached_tokens, result.prompt_tokens),
        100 * Share(row.optimum.cached_tokens, result.prompt_tokens), result.evaluated_tokens,
        Share(result.evaluated_tokens, row.optimum.evaluated_tokens),
        static_cast<double>(result.evicted_bytes) / kMib, result.seconds);
  }
  return text;
}

std::string ReplayJson(const ReplayReport& report) {
  json rows = json::array();
  for (const ReplayRow& row : report.rows) rows.push_back(Of(row));
  return json{{"schema", "skippy-replay"},
              {"version", 1},
              {"trace", report.trace},
              {"runtime", report.runtime},
              {"block_tokens", report.block_tokens},
              {"chunk", report.chunk},
              {"page_tokens", report.page_tokens},
              {"snapshot_bytes", report.snapshot_bytes},
              {"snapshots_at", report.snapshots_at},
              {"requests", report.requests},
              {"prompt_tokens", report.prompt_tokens},
              {"perfect_tree", Of(report.perfect)},
              {"rows", std::move(rows)}}
             .dump(2) +
         "\n";
}

}  // namespace skippy::bench
