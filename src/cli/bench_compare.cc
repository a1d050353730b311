// skippy bench compare: this program against llama-server. The measuring is done by
// bench/compare/run.py of the source tree that this program was built in: it talks HTTP to both, as
// any client would, and must not share code with what it measures.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/bench_command.h"

namespace skippy::cli {

int BenchCompare(std::vector<std::string> arguments) {
  std::error_code error;
  const std::filesystem::path script =
      std::filesystem::path(SKIPPY_SOURCE_DIR) / "bench/compare/run.py";
  if (!std::filesystem::exists(script, error)) {
    return BenchFailed({ErrorCode::kNotFound,
                        fmt::format("there is no '{}': comparisons need the source tree that this "
                                    "program was built from",
                                    script.string())});
  }
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  // Relative: results keep the command, and nobody needs to know our folders.
  const std::string program = std::filesystem::proximate(self, error).string();
  arguments.insert(arguments.begin(), {"python3", script.string(), "--skippy", program});
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  ::execvp(words.front(), words.data());
  return BenchFailed(
      {ErrorCode::kNotFound, fmt::format("cannot run python3: {}", std::strerror(errno))});
}

}  // namespace skippy::cli
