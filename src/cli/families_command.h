// What other commands show of a model's family.
#pragma once

#include <string>

#include "runtime/runtime.h"

namespace skippy::cli {

// "Qwen3-Next, memory as expected": the family of the file, and whether the runtime that loaded it
// holds what the family's file says. Never an error: what cannot be said is said in its place.
std::string FamilyLine(const std::string& model_path, const runtime::RuntimeInfo& info);

}  // namespace skippy::cli
