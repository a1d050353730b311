// skippy bench: finds the measurement and runs it.
#include "cli/bench_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>

#include "cli/commands.h"

namespace skippy::cli {

int BenchFailed(const Error& error) {
  std::fprintf(stderr, "skippy bench: %s\n", error.message.c_str());
  return error.code == ErrorCode::kInternal ? 1 : 2;
}

int WriteJson(const std::string& path, const std::string& text) {
  if (path.empty()) return 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (file.flush()) return 0;
  return BenchFailed({ErrorCode::kInvalidArgument, fmt::format("cannot write '{}'", path)});
}

int BenchCommand(std::vector<std::string> arguments) {
  const std::string what = arguments.empty() ? "" : arguments.front();
  if (!arguments.empty()) arguments.erase(arguments.begin());
  if (what == "compare") return BenchCompare(std::move(arguments));
  if (what == "micro") return BenchMicro(std::move(arguments));
  if (what == "replay") return BenchReplay(std::move(arguments));
  const bool help = what == "--help" || what == "-h";
  std::fprintf(
      help ? stdout : stderr,
      "Usage: skippy bench compare --model M.gguf --llama-server PATH [FLAGS]\n"
      "       skippy bench micro --model M.gguf [FLAGS]\n"
      "       skippy bench replay TRACE.jsonl [FLAGS]\n\n"
      "  compare  this program against llama-server: tokens evaluated, times, costs, answers\n"
      "  micro    what copying, digesting, exporting, importing, recording and looking up "
      "cost\n"
      "  replay   a trace of requests under eviction policies and caps\n");
  return help ? 0 : 2;
}

}  // namespace skippy::cli
