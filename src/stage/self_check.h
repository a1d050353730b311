// Holds what was cut against what it was cut from.
//
// Threads: single-threaded. Errors: those of loading; of CheckAlone also those of WriteSlice.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/runtime_options.h"
#include "skippy/result.h"
#include "skippy/types.h"
#include "stage/slice_file.h"
#include "stage/source.h"

namespace skippy::stage {

struct CheckOptions {
  // Tokens, drawn evenly from the vocabulary; not a multiple of the chunk.
  Pos prompt = 150;
  Pos steps = 16;  // tokens one by one behind it
  runtime::RuntimeOptions runtime = {.context = 512, .chunk = 64, .threads = 1};
};

// With a prompt that is longer than the model's window, and than what its indexer chooses, as far
// as kMostChecked: what such layers do differently then is checked too.
inline constexpr Pos kMostChecked = 4096;
CheckOptions CheckOptionsFor(const Source& source);

struct CheckResult {
  Pos positions = 0;           // that were evaluated
  std::uint32_t compared = 0;  // rows: of logits, or of activations
  std::uint32_t equal = 0;     // bit by bit, and numbers
  double largest_difference = 0;
  Pos first_difference = 0;  // position, where not all are equal
  bool Passed() const { return compared > 0 && equal == compared; }
};

// A chain of stages against the whole model, logit by logit; the steps are greedy. `vocabulary`,
// `stages`: folders; `go_on`: asked before every step, false: kCancelled. Cost: the whole model in
// memory beside its stages, and all tokens through both.
Result<CheckResult> CheckStages(const std::string& model, const std::string& vocabulary,
                                const std::vector<std::string>& stages, const CheckOptions& options,
                                const std::function<bool()>& go_on = {});

// One stage against the hollow model of its range (slice_plan.h): fed with the rows that enter the
// range there, it must give the rows (or logits) that leave it there. `stage`, `vocabulary`:
// folders; the hollow model is written into the folder `scratch` and removed. Cost: on disk the
// stage's weights, the embedding rows and, for the last stage, the head. In memory the larger of
// the stage and of what the hollow model reads of its file. In time two runs of the model, whose
// hollow layers compute, and reading the file, whose holes are some 1.7 bits a weight of the other
// layers. `progress` is asked before every step too (with the whole file as done).
Result<CheckResult> CheckAlone(const Source& source, const std::string& vocabulary,
                               const std::string& stage, const std::string& scratch,
                               const CheckOptions& options, const WriteProgress& progress);

}  // namespace skippy::stage
