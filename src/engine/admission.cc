#include "engine/admission.h"

#include <algorithm>

#include "engine/recall.h"
#include "skippy/snapshot_planner.h"

namespace skippy::engine {
namespace {

std::uint64_t BytesOf(const PinnedHit& hit, const MemoryShape& shape) {
  std::uint64_t bytes = hit.snapshot().size();
  for (const RowSlice& slice : hit.kv()) bytes += slice.positions.size() * shape.kv_row_bytes;
  for (const RowSlice& slice : hit.window()) {
    bytes += slice.positions.size() * shape.window_row_bytes;
  }
  return bytes;
}

void ReportCached(Run& run, HitKind kind, Pos boundary) {
  run.processed = boundary;
  run.report.hit_kind = boundary > 0 ? kind : HitKind::kNone;
  run.report.cached_tokens = boundary;
  run.report.evaluated_tokens = 0;
  run.report.cached_hot = kind == HitKind::kHot ? boundary : 0;
  run.report.cached_warm = boundary - run.report.cached_hot;
}

runtime::ImportRequest ImportOf(const Run& run, const PinnedHit& hit) {
  const Pos boundary = hit.boundary();
  return {run.lane->seq, boundary,     TokenSpan(run.text).first(boundary),
          hit.kv(),      hit.window(), hit.snapshot()};
}

Pos BoundaryOf(const LookupResult& found) { return found.hit ? found.hit->boundary() : 0; }

}  // namespace

std::span<const float> LogitsOf(const PinnedHit& hit) {
  // Blocks are aligned for any scalar, and were copied from floats.
  return {reinterpret_cast<const float*>(hit.logits().data()), hit.logits().size() / sizeof(float)};
}

bool Admission::HasIdleLane() const {
  return std::any_of(core_.lanes.begin(), core_.lanes.end(),
                     [](const Lane& lane) { return lane.run == nullptr; });
}

LookupResult Admission::Lookup(const Run& run, const Query& query) {
  LookupQuery lookup;
  lookup.ns = run.ns;
  lookup.tokens = TokenSpan(run.text).first(query.length);
  lookup.max_boundary = query.max_boundary;
  // Off the grid, a prompt's last rows may have been recorded by another prompt's longer chunk: not
  // bit for bit what a cold run of this one would go on from.
  lookup.allow_decoded_result = query.decoded && core_.Usable(query.length) == query.length;
  lookup.exactness = core_.options.exactness;
  lookup.grid = core_.info().chunk;
  lookup.peek = query.peek;
  lookup.again = query.again;
  return core_.cache.Lookup(lookup);
}

LookupResult Admission::LookupPrompt(const Run& run, bool peek, bool again) {
  if (!run.use_cache) {
    LookupResult off;
    off.reason = MissReason::kDisabled;
    return off;
  }
  return Lookup(run, {run.prompt_tokens, run.prompt_tokens - 1, run.request.allow_decoded_result,
                      peek, again});
}

Admission::HotMatch Admission::MatchHot(Lane& lane, const Run& run, Pos limit) {
  HotMatch match{&lane, 0, 0};
  if (!lane.keep || lane.ns != run.ns || lane.resident.empty() || !core_.CheckLane(lane))
    return match;
  match.common = CommonPrefix(lane.resident, run.prompt());
  Pos target = std::min(match.common, limit);
  if (core_.BitExact()) target = core_.Usable(std::min(target, lane.grid_end));
  if (target != lane.end()) {
    // Memory that cannot be exported exactly is not trusted to be cut back exactly either.
    if (core_.shape().HasSnapshot() || !core_.Caching()) return match;
    const Pos held_from = core_.runtime.WindowHeldFrom(lane.seq);
    if (core_.shape().HasWindow() && held_from > core_.shape().WindowBegin(target)) return match;
  }
  match.usable = target;
  return match;
}

Admission::HotMatch Admission::BestHot(const Run& run, Pos limit) {
  HotMatch best;
  if (!core_.options.hot_lanes || !core_.options.cache || !run.request.use_cache) return best;
  for (Lane& lane : core_.lanes) {
    if (lane.run != nullptr) continue;
    const HotMatch match = MatchHot(lane, run, limit);
    if (match.usable == 0) continue;
    // Of equally long ones the lane that loses least, then the one used longest ago.
    const bool better =
        best.lane == nullptr || match.usable > best.usable ||
        (match.usable == best.usable &&
         (lane.end() < best.lane->end() ||
          (lane.end() == best.lane->end() && lane.last_used < best.lane->last_used)));
    if (better) best = match;
  }
  return best;
}

bool Admission::TakeHot(const HotMatch& hot) {
  Lane& lane = *hot.lane;
  if (hot.usable < lane.end()) {
    recorder_.BeforeLoss(lane);
    if (!core_.runtime.Truncate(lane.seq, hot.usable)) return false;
    lane.resident.resize(hot.usable);
    if (!core_.CheckLane(lane)) return false;
  }
  lane.recorded_end = std::min(lane.recorded_end, hot.usable);
  lane.grid_end = std::min(lane.grid_end, hot.usable);
  lane.record_again_from = 0;
  return true;
}

Lane& Admission::LaneToOverwrite() {
  Lane* best = nullptr;
  for (Lane& lane : core_.lanes) {
    if (lane.run != nullptr) continue;
    if (lane.resident.empty()) return lane;
    if (best == nullptr || lane.last_used < best->last_used) best = &lane;
  }
  return *best;
}

void Admission::Occupy(Run& run, Lane& lane) {
  run.lane = &lane;
  lane.run = &run;
}

// Makes the lane the run's own, empty.
void Admission::Empty(Run& run) {
  Lane& lane = *run.lane;
  if (!run.filled_lane) recorder_.BeforeLoss(lane);
  core_.ClearLane(lane);
  lane.ns = run.ns;
  if (core_.keeper != nullptr) core_.keeper->Bind(lane.seq, run.ns);
  lane.keep = run.request.use_cache && core_.options.cache;
  run.filled_lane = true;
}

std::optional<PinnedHit> Admission::Admit(Run& run) {
  run.admitted = core_.clock.Now();
  run.report.prompt_tokens = run.prompt_tokens;
  run.report.queue_ms = static_cast<double>(run.admitted.value - run.submitted.value) / 1000.0;
  run.phase = Phase::kPrefill;
  run.goal = run.prompt_tokens;
  LookupResult found = LookupPrompt(run, false);
  const bool decoded = found.hit && found.hit->decoded_result();
  const HotMatch hot = BestHot(run, decoded ? run.prompt_tokens : run.prompt_tokens - 1);
  const Pos hot_length = hot.lane != nullptr ? hot.lane->end() : 0;
  if (!decoded && Recall(core_, run, std::max(BoundaryOf(found), hot.usable)))
    found = LookupPrompt(run, false, true);
  run.report.lookup_ms = core_.MillisecondsSince(run.admitted);
  run.report.miss_reason = found.reason;
  run.report.first_different = found.first_different;
  if (decoded) {
    Occupy(run, hot.usable == run.prompt_tokens ? *hot.lane : LaneToOverwrite());
    ReportCached(run, HitKind::kDecodedResult, run.prompt_tokens);
    return std::move(found.hit);
  }
  if (hot.usable > 0 && hot.usable >= BoundaryOf(found) && TakeHot(hot)) {
    Occupy(run, *hot.lane);
    run.filled_lane = true;
    ReportCached(run, HitKind::kHot, hot.usable);
    if (hot.usable > BoundaryOf(found)) {
      // The lane knew more than the cache: its own text says where the prompt went another way.
      const bool diverged = hot.common < hot_length && hot.common < run.prompt_tokens;
      run.report.miss_reason = diverged ? MissReason::kDiverged : MissReason::kNone;
      run.report.first_different = std::max(found.first_different, hot.common);
    }
  } else {
    Occupy(run, LaneToOverwrite());
    Empty(run);
    Fetch(run, std::move(found), {run.prompt_tokens, run.prompt_tokens - 1, false, false, true});
    ReportCached(run, HitKind::kWarm, run.lane->end());
  }
  Plan(run);
  return std::nullopt;
}

void Admission::Materialize(Run& run, PinnedHit hit) {
  run.phase = Phase::kPrefill;
  run.goal = run.prompt_tokens;
  const HotMatch hot = MatchHot(*run.lane, run, run.goal);
  if (hot.usable == run.goal && TakeHot(hot)) {
    run.filled_lane = true;
  } else {
    Empty(run);
    LookupResult found;
    found.hit = std::move(hit);
    Fetch(run, std::move(found), {run.goal, run.goal, false, false, true});
    // Without the state the prompt is evaluated after all, and that is what the report says.
    if (run.lane->end() < run.goal) {
      ReportCached(run, HitKind::kWarm, run.lane->end());
      run.processed = run.prompt_tokens;
      run.report.evaluated_tokens = run.prompt_tokens - run.report.cached_tokens;
    }
  }
  if (run.lane->end() == run.goal) run.phase = Phase::kGenerate;
  Plan(run);
}

void Admission::Refill(Run& run) {
  run.phase = Phase::kPrefill;
  run.goal = static_cast<Pos>(run.text.size()) - (run.generated > 0 ? 1 : 0);
  Empty(run);
  if (run.use_cache && !run.redone_cold) {
    // A prompt must still yield logits; an answer's next step does.
    const Pos max_boundary = run.generated > 0 ? run.goal : run.goal - 1;
    const Query query{run.goal, max_boundary, false, false, true};
    Fetch(run, Lookup(run, query), query);
  }
  if (run.generated == 0) {
    const Pos end = run.lane->end();
    if (end < run.report.cached_tokens) ReportCached(run, HitKind::kWarm, end);
    run.processed = end;
    run.report.evaluated_tokens = end - run.report.cached_tokens;
  }
  if (run.generated > 0 && run.lane->end() == run.goal) run.phase = Phase::kGenerate;
  Plan(run);
}

void Admission::RedoCold(Run& run) {
  CondemnAll(run);
  run.redone_cold = true;
  Refill(run);
}

void Admission::CondemnAll(const Run& run) {
  const Pos length = static_cast<Pos>(run.text.size());
  const auto condemn = [&](Pos end, bool decoded) {
    // Each round erases at least one boundary.
    for (Pos i = 0; i <= length; ++i) {
      LookupResult found = Lookup(run, {end, end, decoded, true, true});
      if (!found.hit) return;
      core_.cache.Condemn(std::move(*found.hit));
    }
  };
  condemn(run.prompt_tokens, true);
  condemn(length, false);
  for (Lane& lane : core_.lanes) {
    const bool shares = lane.ns == run.ns && CommonPrefix(lane.resident, run.text) > 0;
    if (lane.run == nullptr && shares) core_.ClearLane(lane);
  }
}

// What a keeper has lost meanwhile is erased, and the rest looked up again, until all that is found
// is there.
std::optional<PinnedHit> Admission::StillKept(const Run& run, LookupResult found,
                                              const Query& query) {
  if (core_.keeper == nullptr) return std::move(found.hit);
  // Each round erases at least one block.
  for (std::size_t round = 0; found.hit && round <= run.text.size(); ++round) {
    const Result<runtime::MissingParts> missing =
        core_.keeper->FindMissing(ImportOf(run, *found.hit));
    if (!missing) break;  // a part of the runtime is away: the next forward pass says so
    if (!missing->any()) return std::move(found.hit);
    core_.cache.Condemn(std::move(*found.hit), {missing->kv, missing->window, missing->snapshot});
    found = Lookup(run, query);
  }
  return std::nullopt;
}

bool Admission::Restore(Run& run, PinnedHit hit) {
  Lane& lane = *run.lane;
  const Tick start = core_.clock.Now();
  const Pos boundary = hit.boundary();
  const runtime::ImportRequest request = ImportOf(run, hit);
  const TokenSpan tokens = request.tokens;
  const Status imported = core_.runtime.Import(request);
  // A success is not proof (K4): the lane must end, and its window begin, where the boundary says.
  const bool sound = imported && core_.runtime.End(lane.seq) == boundary &&
                     (!core_.shape().HasWindow() || core_.runtime.WindowHeldFrom(lane.seq) <=
                                                        core_.shape().WindowBegin(boundary));
  ++core_.stats.restores;
  const double elapsed_ms = core_.MillisecondsSince(start);
  run.report.restore_ms += elapsed_ms;
  core_.stats.restore_seconds += elapsed_ms / 1000.0;
  if (!sound) {
    ++core_.stats.restore_failures;
    core_.ClearLane(lane);
    core_.cache.Condemn(std::move(hit));
    return false;
  }
  core_.stats.restored_bytes += BytesOf(hit, core_.shape());
  lane.resident.assign(tokens.begin(), tokens.end());
  lane.recorded_end = boundary;
  // A bit-exact lookup returns rows on the grid only; of others nothing is known.
  lane.grid_end = core_.BitExact() ? boundary : 0;
  return true;
}

void Admission::Fetch(Run& run, LookupResult found, const Query& query) {
  std::optional<PinnedHit> hit = StillKept(run, std::move(found), query);
  if (!hit || Restore(run, std::move(*hit))) return;
  hit = StillKept(run, Lookup(run, query), query);
  if (hit) Restore(run, std::move(*hit));
}

// Where the prefill has to stop, for memory that cannot be cut back later.
void Admission::Plan(Run& run) {
  if (!core_.shape().HasSnapshot() || !run.use_cache) return;
  std::vector<Pos> starts = run.request.message_starts;
  std::erase_if(starts, [&](Pos p) { return p > run.prompt_tokens; });
  std::sort(starts.begin(), starts.end());
  const Pos junction = run.report.first_different;
  SnapshotPlanInput input;
  input.resume = run.lane->end();
  input.prompt_end = run.prompt_tokens;
  input.message_starts = starts;
  if (core_.options.snapshot_junctions) input.junctions = {&junction, 1};
  input.grid = core_.info().chunk;
  input.spacing = core_.options.snapshot_spacing;
  input.grid_only = core_.BitExact();
  for (const Pos boundary : PlanSnapshots(input)) run.AddSnapshot(boundary);
  input.spacing = 0;
  run.parts = PlanSnapshots(input);
}

DryRun Admission::Peek(const Run& run) {
  const LookupResult found = LookupPrompt(run, true);
  DryRun dry;
  dry.reason = found.reason;
  dry.first_different = found.first_different;
  dry.boundary = BoundaryOf(found);
  if (found.hit) dry.kind = found.hit->decoded_result() ? HitKind::kDecodedResult : HitKind::kWarm;
  const HotMatch hot = BestHot(run, run.prompt_tokens - 1);
  if (dry.kind != HitKind::kDecodedResult && hot.usable > 0 && hot.usable >= dry.boundary) {
    dry.boundary = hot.usable;
    dry.kind = HitKind::kHot;
    dry.first_different = std::max(dry.first_different, hot.common);
  }
  return dry;
}

}  // namespace skippy::engine
