// What `skippy stage split` tells: as text, and as JSON for programs.
//
// Pure functions. Threads: any. Errors: none.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stage/self_check.h"
#include "stage/split.h"

namespace skippy::stage {

struct SplitOutcome {
  std::vector<Package> packages;  // the vocabulary's first
  std::optional<CheckResult> check;
  std::string not_checked;  // why, where there is no check
  bool Passed() const { return !check || check->Passed(); }
};

std::string ToText(const SplitOutcome& outcome);
std::string ToJson(const SplitOutcome& outcome);

}  // namespace skippy::stage
