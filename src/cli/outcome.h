// How a command ends: what it says of an error, its exit code, the JSON that it was asked for.
#pragma once

#include <string>

#include "skippy/result.h"

namespace skippy::cli {

// Says on standard error why `command` ("skippy stage split") ends. The process's exit code: 1 for
// an error of ours, else 2.
int FailedWith(const char* command, const Error& error);

// Into the file; an empty path writes nothing. 0, or the exit code of FailedWith.
int WriteJsonFile(const char* command, const std::string& path, const std::string& json);

}  // namespace skippy::cli
