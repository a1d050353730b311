// skippy bench: finds the measurement and runs it.
#include "cli/bench_command.h"

#include <cstdio>

#include "cli/commands.h"
#include "cli/outcome.h"

namespace skippy::cli {
namespace {

constexpr const char* kCommand = "skippy bench";

}  // namespace

int BenchFailed(const Error& error) { return FailedWith(kCommand, error); }

int WriteJson(const std::string& path, const std::string& text) {
  return WriteJsonFile(kCommand, path, text);
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
