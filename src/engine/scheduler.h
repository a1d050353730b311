// Scheduler: the queue, the running requests, and the order of work in one round.
//
// A round drops cancelled requests, admits waiting ones to idle lanes in order of arrival
// (followers of a shared prefill let others pass), evaluates at most one prefill chunk, taking
// turns between lanes, and then does one decode step of all generating lanes. So nobody waits for
// more than one chunk between two tokens. Idle work runs one piece at a time, while there are no
// requests, and is ended by the first that comes.
//
// Owned by the engine thread.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "engine/admission.h"
#include "engine/core.h"
#include "engine/generation.h"
#include "engine/prefill.h"
#include "engine/recorder.h"
#include "engine/sharing.h"

namespace skippy::engine {

class Scheduler {
 public:
  explicit Scheduler(Core& core);

  void Enqueue(std::unique_ptr<Run> run) { queue_.push_back(std::move(run)); }
  void Cancel(RequestId id);
  void CancelAll();
  // One round; false: there was nothing to do.
  bool Step();

  std::size_t queued() const;       // requests waiting
  std::size_t idle_queued() const;  // idle work waiting
  std::size_t running() const;      // requests in a lane, or served without one
  std::vector<LaneStatus> Lanes() const;
  DryRun Peek(const Run& run) { return admission_.Peek(run); }
  void ForgetIdleLanes();

 private:
  bool DropCancelled();
  bool YieldIdle();
  bool AdmitWaiting();
  void Admit(std::unique_ptr<Run> owned);
  void StartFromResult(Run& run, PinnedHit hit);
  bool PrefillOne();
  bool DecodeAll();
  void Finish(Run& run, Generation::End end);
  void ReleaseLane(Run& run, FinishReason reason);
  void Account(const Run& run, FinishReason reason);
  void Sweep();
  std::vector<Run*> RunsIn(Phase phase) const;

  Core& core_;
  Recorder recorder_;
  Admission admission_;
  Prefill prefill_;
  Generation generation_;
  Sharing sharing_;
  std::deque<std::unique_ptr<Run>> queue_;
  std::vector<std::unique_ptr<Run>> running_;  // in order of admission
  std::uint64_t chunks_ = 0;
  std::uint64_t releases_ = 0;
};

}  // namespace skippy::engine
