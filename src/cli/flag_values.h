// What several commands make of the values of their flags.
//
// Errors: kInvalidArgument, naming the flag.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "skippy/result.h"

namespace skippy::cli {

// The whole file.
Result<std::string> ReadFile(const std::string& flag, const std::string& path);

// The first line of a file, which must not be empty.
Result<std::string> ReadSecret(const std::string& flag, const std::string& path);

// The parts that are not empty.
std::vector<std::string> SplitOn(const std::string& text, char separator);

// For caches whose size nobody said: a quarter of the memory, at most 4096 MiB.
std::uint64_t DefaultCacheMib();

}  // namespace skippy::cli
