#include "bench/micro_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace skippy::bench {
namespace {

using nlohmann::json;

double GigabytesPerSecond(std::uint64_t bytes, double microseconds) {
  return microseconds > 0 ? static_cast<double>(bytes) / microseconds / 1e3 : 0;
}

std::vector<std::pair<const char*, const Movement*>> Named(const MicroPoint& point) {
  return {{"export_pages", &point.export_pages},
          {"export_call", &point.export_call},
          {"import_call", &point.import_call}};
}

json Movements(const MicroPoint& point) {
  json all = json::object();
  for (const auto& [name, movement] : Named(point)) {
    all[name] = {
        {"p50_us", movement->p50_us}, {"p95_us", movement->p95_us}, {"cpu_us", movement->cpu_us}};
  }
  return all;
}

std::string MovementTable(const MicroReport& report) {
  std::string text =
      fmt::format("\nMovements, us: median, 95th percentile, CPU time\n\n{:>8}{:>30}{:>30}{:>30}\n",
                  "tokens", "export, a call a page", "export, one call", "import, one call");
  for (const MicroPoint& point : report.points) {
    text += fmt::format("{:>8}", point.tokens);
    for (const auto& [name, movement] : Named(point)) {
      text += fmt::format("{:>10.1f}{:>10.1f}{:>10.1f}", movement->p50_us, movement->p95_us,
                          movement->cpu_us);
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::string MicroTable(const MicroReport& report) {
  std::string text = fmt::format(
      "{}: {} bytes a token, {} window bytes for each of {} tokens, {} bytes a snapshot; pages of "
      "{}\n\n{:>8}{:>12}{:>13}{:>13}{:>13}{:>13}{:>13}{:>13}\n",
      report.model, report.shape.kv_row_bytes, report.shape.window_row_bytes,
      report.shape.window_tokens, report.shape.snapshot_bytes, report.page_tokens, "tokens", "MiB",
      "memcpy", "digest", "export", "import", "record", "lookup");
  for (const MicroPoint& point : report.points) {
    text += fmt::format("{:>8}{:>12.2f}", point.tokens,
                        static_cast<double>(point.bytes) / (1024.0 * 1024.0));
    for (const double time :
         {point.memcpy_us, point.digest_us, point.export_pages.p50_us, point.import_call.p50_us}) {
      text += fmt::format("{:>8.2f} GB/s", GigabytesPerSecond(point.bytes, time));
    }
    text += fmt::format("{:>10.0f} us{:>10.1f} us\n", point.record_us, point.lookup_us);
  }
  return text + MovementTable(report);
}

std::string MicroJson(const MicroReport& report) {
  json points = json::array();
  for (const MicroPoint& point : report.points) {
    points.push_back({{"tokens", point.tokens},
                      {"bytes", point.bytes},
                      {"memcpy_us", point.memcpy_us},
                      {"digest_us", point.digest_us},
                      {"export_us", point.export_pages.p50_us},
                      {"import_us", point.import_call.p50_us},
                      {"movements", Movements(point)},
                      {"record_us", point.record_us},
                      {"lookup_us", point.lookup_us}});
  }
  return json{{"schema", "skippy-micro"},
              {"version", 1},
              {"model", report.model},
              {"runtime_build", report.runtime_build},
              {"kv_row_bytes", report.shape.kv_row_bytes},
              {"window_row_bytes", report.shape.window_row_bytes},
              {"window_tokens", report.shape.window_tokens},
              {"snapshot_bytes", report.shape.snapshot_bytes},
              {"page_tokens", report.page_tokens},
              {"points", std::move(points)}}
             .dump(2) +
         "\n";
}

}  // namespace skippy::bench
