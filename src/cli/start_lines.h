// What servers tell of themselves on standard error.
#pragma once

#include <cstdint>
#include <string>

#include "skippy/memory_shape.h"
#include "skippy/result.h"

namespace skippy::cli {

void Say(const std::string& line);
// Says why `command` ends, and gives the process's exit code.
int FailedToStart(const char* command, const Error& error);

std::string Mebibytes(std::uint64_t bytes);  // "1.5 MiB"

// "KV rows + sliding window: 1024 bytes a token, 1.5 MiB a snapshot"
std::string MemoryLine(const MemoryShape& shape);

}  // namespace skippy::cli
