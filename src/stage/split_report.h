// What `skippy stage split` tells: as text, and as JSON for programs.
//
// Pure functions. Threads: any. Errors: none.
#pragma once

#include <string>
#include <vector>

#include "stage/self_check.h"
#include "stage/split.h"

namespace skippy::stage {

// Of a stage alone, or of all of them at once.
struct Check {
  LayerRange layers;
  CheckResult result;
};

struct SplitOutcome {
  std::vector<Package> packages;  // the vocabulary's first
  // Against the whole model in one, or against a hollow one stage by stage.
  bool alone = false;
  std::vector<Check> checks;
  std::string not_checked;  // why, where a check is missing
  bool Passed() const;
};

std::string ToText(const SplitOutcome& outcome);
std::string ToJson(const SplitOutcome& outcome);

}  // namespace skippy::stage
