#include "rpc/files.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

namespace skippy::rpc {

Result<std::string> ReadPem(std::string_view what, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) return Err(ErrorCode::kInvalidArgument, fmt::format("{}: cannot read {}", what, path));
  if (text.find("-----BEGIN ") == std::string::npos)
    return Err(ErrorCode::kInvalidArgument, fmt::format("{}: {} is no PEM file", what, path));
  return text;
}

}  // namespace skippy::rpc
