// Prefill: evaluates one chunk of a run's text and records it.
//
// Chunks end on the grid and, for memory with snapshots, at the run's planned boundaries; never
// where a cached prefix happened to end. So the shape of the work depends on the prompt (and, for
// junctions, on what is stored), and in the bit-exact setting on the grid alone.
#pragma once

#include "engine/admission.h"
#include "engine/core.h"
#include "engine/recorder.h"

namespace skippy::engine {

enum class ChunkOutcome : std::uint8_t {
  kMore = 0,     // there is more to evaluate
  kLogits = 1,   // the prompt is done: the runtime's logits 0 belong to its last token
  kRebuilt = 2,  // prompt and answer so far are back in the lane: generation goes on
};

class Prefill {
 public:
  Prefill(Core& core, Admission& admission, Recorder& recorder)
      : core_(core), admission_(admission), recorder_(recorder) {}

  // REQUIRES: run.phase == kPrefill and the lane holds less than text[0, goal). A failed chunk is
  // tried once more from the last recorded boundary; an error means that this did not help, and the
  // lane is empty.
  Result<ChunkOutcome> RunChunk(Run& run);

  // Where the chunk that begins at `begin` ends.
  Pos ChunkEnd(const Run& run, Pos begin) const;

 private:
  Status Evaluate(Run& run, Pos end);

  Core& core_;
  Admission& admission_;
  Recorder& recorder_;
};

}  // namespace skippy::engine
