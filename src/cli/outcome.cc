#include "cli/outcome.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>

namespace skippy::cli {

int FailedWith(const char* command, const Error& error) {
  std::fprintf(stderr, "%s: %s\n", command, error.message.c_str());
  return error.code == ErrorCode::kInternal ? 1 : 2;
}

int WriteJsonFile(const char* command, const std::string& path, const std::string& json) {
  if (path.empty()) return 0;
  std::ofstream file(path, std::ios::binary);
  file << json;
  if (file.flush()) return 0;
  return FailedWith(command, {ErrorCode::kInvalidArgument, fmt::format("cannot write '{}'", path)});
}

}  // namespace skippy::cli
