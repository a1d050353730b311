// What `skippy stage` does. Each takes the arguments behind its name and gives the process's exit
// code.
#pragma once

#include <string>
#include <vector>

namespace skippy::cli {

int StageSplit(std::vector<std::string> arguments);
int StageServe(std::vector<std::string> arguments);
int StageCertify(std::vector<std::string> arguments);
int StageWires(std::vector<std::string> arguments);

}  // namespace skippy::cli
