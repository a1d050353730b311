// `skippy stage split`: cuts a model into packages, one folder a stage.
//
//   DIR/vocabulary/{model.gguf,manifest.json}   tokenizer, template, embedding rows: the
//   coordinator's DIR/stage-0..10/{model.gguf,manifest.json}  layers 0 to 9
//   ...
//
// Each folder is complete in itself: it can be moved to another machine alone. A folder whose
// manifest is there is finished and left as it is (if it is of the same model and range); an
// interrupted one is continued.
//
// Threads: one. Errors: kInvalidArgument (ranges, a folder that holds another model's package),
// kUnsupported (the architecture's reason), kUnavailable (disk), kCancelled. Cost: the model is
// read twice, once for its digest and once to be copied; memory stays at a few MiB.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "skippy/result.h"
#include "stage/manifest.h"

namespace skippy::stage {

struct SplitOptions {
  std::string model;  // a GGUF, or the first part of one
  std::string out;
  // One of the three.
  std::string layers;           // as ParseRanges
  std::uint32_t stages = 0;     // as CutInto
  std::uint64_t max_bytes = 0;  // as CutBelow
  FirstStage first = FirstStage::kStub;
};

// False: stop.
using SplitProgress =
    std::function<bool(std::uint64_t done, std::uint64_t total, const std::string& what)>;

// Within a stage's folder, while it is checked.
inline constexpr const char* kCheckFolder = "check";

struct Package {
  std::string folder;
  Manifest manifest;
  bool was_there = false;
};

// The family that the model is of; one without a recipe where it is of none.
Result<families::Family> FamilyOf(const Source& source);

Result<std::vector<Package>> Split(const SplitOptions& options, const SplitProgress& progress);

}  // namespace skippy::stage
