#include "engine/prefill.h"

#include <algorithm>

namespace skippy::engine {

Pos Prefill::ChunkEnd(const Run& run, Pos begin) const {
  const Pos chunk = core_.info().chunk;
  const Pos end = std::min(run.goal, (begin / chunk + 1) * chunk);
  if (core_.BitExact()) {
    // What was generated token by token is evaluated again token by token.
    return begin < run.prompt_tokens ? std::min(end, run.prompt_tokens) : begin + 1;
  }
  const auto planned = std::upper_bound(run.snapshots.begin(), run.snapshots.end(), begin);
  return planned != run.snapshots.end() ? std::min(end, *planned) : end;
}

Status Prefill::Evaluate(Run& run, Pos end) {
  Lane& lane = *run.lane;
  const Pos begin = lane.end();
  SKIPPY_RETURN_IF_ERROR(core_.UseAdapters(run.adapters));
  const bool want_logits = run.generated == 0 && end == run.goal;
  const runtime::DecodeItem item{lane.seq, begin, TokenSpan(run.text).subspan(begin, end - begin),
                                 want_logits};
  ++core_.stats.decode_calls;
  SKIPPY_RETURN_IF_ERROR(core_.runtime.Decode({&item, 1}));
  run.prefilled += end - begin;
  lane.resident.insert(lane.resident.end(), item.tokens.begin(), item.tokens.end());
  const Pos chunk = core_.info().chunk;
  if (lane.grid_end == begin && begin % chunk == 0 && end % chunk == 0) lane.grid_end = end;
  if (!core_.CheckLane(lane)) {
    return Err(ErrorCode::kInternal, "after a prefill chunk the lane does not end where it should");
  }
  return {};
}

Result<ChunkOutcome> Prefill::RunChunk(Run& run) {
  Lane& lane = *run.lane;
  const Tick start = core_.clock.Now();
  const Status evaluated = Evaluate(run, ChunkEnd(run, lane.end()));
  core_.stats.prompt_seconds += core_.MillisecondsSince(start) / 1000.0;
  if (!evaluated) {
    if (run.prefill_retried) return tl::unexpected<Error>(evaluated.error());
    run.prefill_retried = true;
    admission_.Refill(run);
    return run.phase == Phase::kGenerate ? ChunkOutcome::kRebuilt : ChunkOutcome::kMore;
  }
  const bool done = lane.end() == run.goal;
  std::span<const float> logits;
  if (done && run.generated == 0) {
    logits = core_.runtime.Logits(0);
    if (!LogitsAreSane(logits)) {
      // Nothing of this may be served again. A cold run that ends here too has a broken model under
      // it.
      if (run.redone_cold || run.report.cached_tokens == 0) {
        admission_.CondemnAll(run);
        return Err(ErrorCode::kInternal, "the model's logits are not numbers");
      }
      admission_.RedoCold(run);
      return ChunkOutcome::kMore;
    }
  }
  recorder_.AfterChunk(run, logits);
  if (run.generated == 0) {
    run.processed = lane.end();
    run.report.evaluated_tokens = run.processed - run.report.cached_tokens;
  }
  if (!done) return ChunkOutcome::kMore;
  return run.generated == 0 ? ChunkOutcome::kLogits : ChunkOutcome::kRebuilt;
}

}  // namespace skippy::engine
