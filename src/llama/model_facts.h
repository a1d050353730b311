// Hands a model file's metadata and tensor names to the family catalogue.
//
// Reads headers only; nothing is loaded. Errors: those of CheckGguf. Cost: as CheckGguf, tens of
// milliseconds for a large vocabulary.
#pragma once

#include <string>

#include "families/model_facts.h"
#include "skippy/result.h"

namespace skippy::llama {

// All parts of a split model; metadata is the first part's, as llama.cpp reads it.
Result<families::ModelFacts> ReadModelFacts(const std::string& path);

}  // namespace skippy::llama
