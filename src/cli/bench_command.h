// The measurements of `skippy bench`. Each takes the arguments behind its name and gives the
// process's exit code.
#pragma once

#include <string>
#include <vector>

#include "skippy/result.h"

namespace skippy::cli {

// Does not return once the comparison runs.
int BenchCompare(std::vector<std::string> arguments);
int BenchMicro(std::vector<std::string> arguments);
int BenchReplay(std::vector<std::string> arguments);

// Tells the error; the exit code.
int BenchFailed(const Error& error);
// Writes the text to the file, if one was named; the exit code.
int WriteJson(const std::string& path, const std::string& text);

}  // namespace skippy::cli
