// Sharing: which running prefill a waiting request should let go first, because it computes their
// common prefix anyway.
//
// A follower holds no lane and waits for one boundary of one leader; a leader runs and never waits,
// so there is no circle, and whatever ends the leader ends the wait. Worth it only if the leader
// gets to the boundary with at most one chunk more work than the follower would save.
#pragma once

#include <span>

#include "engine/admission.h"
#include "engine/core.h"
#include "engine/prefill.h"
#include "engine/recorder.h"

namespace skippy::engine {

class Sharing {
 public:
  Sharing(Core& core, Admission& admission, Prefill& prefill, Recorder& recorder)
      : core_(core), admission_(admission), prefill_(prefill), recorder_(recorder) {}

  // The request should (still) wait. Sets run.wait; adds a snapshot boundary to the leader's plan
  // where its memory needs one. `running`: all runs that hold a lane.
  bool ShouldWait(Run& run, std::span<Run* const> running);

 private:
  bool StillWaiting(const Run& run, std::span<Run* const> running) const;
  Pos BoundaryFrom(const Run& follower, const Run& leader) const;
  bool WorthIt(const Run& leader, Pos boundary, Pos have) const;

  Core& core_;
  Admission& admission_;
  Prefill& prefill_;
  Recorder& recorder_;
};

}  // namespace skippy::engine
