// Recorder: copies what a lane newly holds into the cache, in two phases, while it can still be
// exported.
//
// Never fails a request: a record that is refused, or an export or commit that fails, leaves the
// cache as it was and the rows unrecorded; a later record of the same lane includes them. Cost: the
// bytes exported, and O(tokens) comparisons in the cache.
#pragma once

#include <span>

#include "engine/core.h"

namespace skippy::engine {

class Recorder {
 public:
  explicit Recorder(Core& core) : core_(core) {}

  // The lane has just been advanced by a prefill chunk to lane.end(). `logits` (of the last token)
  // only at the end of a prompt. A snapshot is recorded where the run planned one and at the
  // prompt's end.
  void AfterChunk(Run& run, std::span<const float> logits);
  // After a decode step: records when a page is full or a window ring is about to forget, and a
  // snapshot every so many tokens, so that an edit inside a long answer does not fall back to its
  // beginning.
  void AfterStep(Run& run);
  // The run is over (answered, stopped or cancelled) and leaves a sound lane behind.
  void AtEnd(Run& run);
  // Before a lane's content is cut or overwritten: one more try for what could not be recorded
  // earlier.
  void BeforeLoss(Lane& lane);
  // Records a snapshot at the lane's end now (a follower can start from exactly here).
  bool SnapshotNow(Lane& lane);

 private:
  struct Extras {
    bool snapshot = false;
    bool prompt_end = false;
    bool answer_end = false;
    bool part_start = false;
    std::span<const float> logits;
  };
  Pos SnapshotSpacing() const;
  bool Record(Lane& lane, const Extras& extras);
  bool Fill(const Lane& lane, const RecordTicket& ticket, std::span<const float> logits);

  Core& core_;
};

}  // namespace skippy::engine
