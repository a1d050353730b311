#include "engine/scheduler.h"

#include <algorithm>

namespace skippy::engine {
namespace {

template <class Runs>
std::size_t CountLive(const Runs& runs, bool idle) {
  return static_cast<std::size_t>(std::count_if(runs.begin(), runs.end(), [idle](const auto& run) {
    return run->phase != Phase::kDone && run->request.idle == idle;
  }));
}

}  // namespace

Scheduler::Scheduler(Core& core)
    : core_(core),
      recorder_(core),
      admission_(core, recorder_),
      prefill_(core, admission_, recorder_),
      generation_(core, admission_, recorder_),
      sharing_(core, admission_, prefill_, recorder_) {}

std::vector<Run*> Scheduler::RunsIn(Phase phase) const {
  std::vector<Run*> runs;
  for (const auto& run : running_) {
    if (run->phase == phase) runs.push_back(run.get());
  }
  return runs;
}

void Scheduler::Cancel(RequestId id) {
  const auto mark = [id](const std::unique_ptr<Run>& run) {
    if (run->id == id) run->cancel = true;
  };
  std::for_each(queue_.begin(), queue_.end(), mark);
  std::for_each(running_.begin(), running_.end(), mark);
}

void Scheduler::CancelAll() {
  for (const auto& run : queue_) run->cancel = true;
  for (const auto& run : running_) run->cancel = true;
  DropCancelled();
}

bool Scheduler::Step() {
  bool worked = DropCancelled();
  worked |= YieldIdle();
  worked |= AdmitWaiting();
  worked |= PrefillOne();
  worked |= DecodeAll();
  Sweep();
  return worked;
}

bool Scheduler::DropCancelled() {
  const auto gone = [](const Run& run) { return run.cancel || run.request.sink->Cancelled(); };
  bool any = false;
  for (const auto& run : running_) {
    if (run->phase == Phase::kDone || !gone(*run)) continue;
    Finish(*run, {FinishReason::kCancelled, std::nullopt});
    any = true;
  }
  for (auto& run : queue_) {
    if (!gone(*run)) continue;
    run->report.prompt_tokens = run->prompt_tokens;
    run->report.queue_ms = core_.MillisecondsSince(run->submitted);
    Finish(*run, {FinishReason::kCancelled, std::nullopt});
    any = true;
  }
  Sweep();
  return any;
}

void Scheduler::Sweep() {
  const auto done = [](const std::unique_ptr<Run>& run) { return run->phase == Phase::kDone; };
  std::erase_if(running_, done);
  std::erase_if(queue_, done);
}

// A request never waits for idle work, and never loses a lane to it.
bool Scheduler::YieldIdle() {
  if (queued() == 0) return false;
  bool any = false;
  for (const auto& run : running_) {
    if (!run->request.idle || run->phase == Phase::kDone) continue;
    Finish(*run, {FinishReason::kCancelled, std::nullopt});
    any = true;
  }
  Sweep();
  return any;
}

bool Scheduler::AdmitWaiting() {
  bool any = false;
  std::vector<Run*> running;
  for (const auto& run : running_) running.push_back(run.get());
  for (auto it = queue_.begin(); it != queue_.end() && admission_.HasIdleLane();) {
    const bool too_busy = (*it)->request.idle && (!running.empty() || queued() > 0);
    if (too_busy || sharing_.ShouldWait(**it, running)) {
      ++it;
      continue;
    }
    std::unique_ptr<Run> run = std::move(*it);
    it = queue_.erase(it);
    Run* admitted = run.get();
    Admit(std::move(run));
    if (admitted->phase != Phase::kDone) running.push_back(admitted);
    any = true;
  }
  return any;
}

void Scheduler::Admit(std::unique_ptr<Run> owned) {
  Run& run = *owned;
  running_.push_back(std::move(owned));
  std::optional<PinnedHit> decoded = admission_.Admit(run);
  run.request.sink->OnPromptProgress(run.report, run.processed);
  if (decoded) StartFromResult(run, std::move(*decoded));
}

void Scheduler::StartFromResult(Run& run, PinnedHit hit) {
  const std::span<const float> logits = LogitsOf(hit);
  if (!LogitsAreSane(logits)) {
    core_.cache.Condemn(std::move(hit));
    return admission_.RedoCold(run);
  }
  if (auto end = generation_.Emit(run, logits)) return Finish(run, std::move(*end));
  admission_.Materialize(run, std::move(hit));
}

bool Scheduler::PrefillOne() {
  const std::vector<Run*> runs = RunsIn(Phase::kPrefill);
  if (runs.empty()) return false;
  Run& run = **std::min_element(runs.begin(), runs.end(), [](const Run* a, const Run* b) {
    return a->last_chunk < b->last_chunk;
  });
  run.last_chunk = ++chunks_;
  const Result<ChunkOutcome> outcome = prefill_.RunChunk(run);
  if (!outcome) {
    Finish(run, {FinishReason::kError, outcome.error()});
    return true;
  }
  if (run.generated == 0) run.request.sink->OnPromptProgress(run.report, run.processed);
  if (*outcome == ChunkOutcome::kMore) return true;
  run.phase = Phase::kGenerate;
  if (*outcome == ChunkOutcome::kRebuilt) return true;
  if (auto end = generation_.Emit(run, core_.runtime.Logits(0))) Finish(run, std::move(*end));
  return true;
}

bool Scheduler::DecodeAll() {
  const std::vector<Run*> runs = RunsIn(Phase::kGenerate);
  if (runs.empty()) return false;
  generation_.Step(runs, [this](Run& run, Generation::End end) { Finish(run, std::move(end)); });
  return true;
}

void Scheduler::Finish(Run& run, Generation::End end) {
  GenerationReport report;
  if (run.lane != nullptr) {
    report.lane = run.lane->seq;
    ReleaseLane(run, end.reason);
  }
  run.phase = Phase::kDone;
  Account(run, end.reason);
  report.prompt = run.report;
  report.finish = end.reason;
  report.error = std::move(end.error);
  report.generated_tokens = run.generated;
  report.decode_ms = run.decode_ms;
  if (core_.publish) core_.publish();
  run.request.sink->OnFinish(report);
}

void Scheduler::ReleaseLane(Run& run, FinishReason reason) {
  Lane& lane = *run.lane;
  if (run.filled_lane) {
    const bool sound = reason != FinishReason::kError && core_.CheckLane(lane);
    if (sound) recorder_.AtEnd(run);
    if (!sound || !lane.keep) core_.ClearLane(lane);
    lane.last_used = ++releases_;
  }
  lane.run = nullptr;
  run.lane = nullptr;
}

void Scheduler::Account(const Run& run, FinishReason reason) {
  EngineStats& stats = core_.stats;
  if (run.request.idle) {
    ++stats.idle_runs;
    stats.idle_evaluated_tokens += run.prefilled;
    return;
  }
  switch (reason) {
    case FinishReason::kStop:
    case FinishReason::kLength: ++stats.finished; break;
    case FinishReason::kCancelled: ++stats.cancelled; break;
    case FinishReason::kError: ++stats.failed; break;
  }
  const PromptReport& report = run.report;
  stats.prompt_tokens += report.cached_tokens + report.evaluated_tokens;
  stats.evaluated_tokens += report.evaluated_tokens;
  stats.recomputed_tokens +=
      run.prefilled - std::min<std::uint64_t>(run.prefilled, report.evaluated_tokens);
  stats.generated_tokens += run.generated;
  if (report.hit_kind == HitKind::kDecodedResult) {
    stats.cached_decoded_tokens += report.cached_tokens;
  } else {
    stats.cached_hot_tokens += report.cached_hot;
    stats.cached_warm_tokens += report.cached_warm;
  }
  const bool admitted = run.goal > 0;
  if (admitted) ++stats.hits_by_kind[static_cast<std::size_t>(report.hit_kind)];
}

std::size_t Scheduler::queued() const { return CountLive(queue_, false); }
std::size_t Scheduler::idle_queued() const { return CountLive(queue_, true); }
std::size_t Scheduler::running() const { return CountLive(running_, false); }

std::vector<LaneStatus> Scheduler::Lanes() const {
  std::vector<LaneStatus> lanes;
  for (const Lane& lane : core_.lanes) {
    LaneStatus status;
    status.lane = lane.seq;
    status.resident_tokens = lane.end();
    if (lane.run != nullptr) {
      status.busy = true;
      status.request = lane.run->id;
      status.prompt_tokens = lane.run->prompt_tokens;
      status.prompt_processed = lane.run->processed;
      status.generated = lane.run->generated;
    }
    lanes.push_back(status);
  }
  return lanes;
}

void Scheduler::ForgetIdleLanes() {
  for (Lane& lane : core_.lanes) {
    if (lane.run == nullptr) core_.ClearLane(lane);
  }
}

}  // namespace skippy::engine
