#include "cli/start_lines.h"

#include <fmt/format.h>

#include <cstdio>

namespace skippy::cli {

void Say(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

int FailedToStart(const char* command, const Error& error) {
  const bool memory = error.code == ErrorCode::kResourceExhausted;
  Say(fmt::format("{}: {}{}", command, memory ? "not enough memory: " : "", error.message));
  return error.code == ErrorCode::kInternal ? 1 : 2;
}

std::string Mebibytes(std::uint64_t bytes) {
  constexpr double kMib = 1024.0 * 1024.0;
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / kMib);
}

std::string MemoryLine(const MemoryShape& shape) {
  std::string kind;
  const auto add = [&](bool there, const char* what) {
    if (there) kind += (kind.empty() ? "" : " + ") + std::string(what);
  };
  add(shape.HasKv(), "KV rows");
  add(shape.HasWindow(), "sliding window");
  add(shape.HasSnapshot(), "recurrent state");
  return fmt::format(
      "{}: {} bytes a token{}", kind.empty() ? "none" : kind,
      shape.kv_row_bytes + shape.window_row_bytes,
      shape.HasSnapshot() ? ", " + Mebibytes(shape.snapshot_bytes) + " a snapshot" : "");
}

}  // namespace skippy::cli
