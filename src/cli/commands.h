// The subcommands. Each takes the arguments behind its name and gives the process's exit code: 0
// success, 1 the thing asked about is not so, 2 bad usage or bad input.
#pragma once

#include <string>
#include <vector>

namespace skippy::cli {

int Serve(std::vector<std::string> arguments);
int BenchCommand(std::vector<std::string> arguments);
int CertifyCommand(std::vector<std::string> arguments);
int CacheCommand(std::vector<std::string> arguments);
int FixturesCommand(std::vector<std::string> arguments);
int FamiliesCommand(std::vector<std::string> arguments);
int StageCommand(std::vector<std::string> arguments);
int Version(const std::vector<std::string>& arguments);

}  // namespace skippy::cli
