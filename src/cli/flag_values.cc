#include "cli/flag_values.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace skippy::cli {

Result<std::string> ReadFile(const std::string& flag, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file && text << file.rdbuf()) return text.str();
  std::error_code error;  // an empty file is none
  if (std::filesystem::is_regular_file(path, error) && std::filesystem::is_empty(path, error))
    return std::string();
  return Err(ErrorCode::kInvalidArgument, fmt::format("{}: cannot read '{}'", flag, path));
}

Result<std::string> ReadSecret(const std::string& flag, const std::string& path) {
  SKIPPY_TRY(std::string secret, ReadFile(flag, path));
  secret.resize(std::min(secret.size(), secret.find('\n')));
  while (!secret.empty() && std::isspace(static_cast<unsigned char>(secret.back())) != 0)
    secret.pop_back();
  if (secret.empty())
    return Err(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: the first line of '{}' is empty; it should be the secret", flag, path));
  return secret;
}

std::vector<std::string> SplitOn(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

std::uint64_t DefaultCacheMib() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGE_SIZE);
  const std::uint64_t memory =
      pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page)
                            : 0;
  return std::clamp<std::uint64_t>((memory >> 20U) / 4, 64, 4096);
}

}  // namespace skippy::cli
