#include "engine/recorder.h"

#include <algorithm>
#include <cstring>

namespace skippy::engine {

void Recorder::AfterChunk(Run& run, std::span<const float> logits) {
  Lane& lane = *run.lane;
  if (!lane.keep) return;
  const Tick start = core_.clock.Now();
  Extras extras;
  extras.prompt_end = lane.end() == run.prompt_tokens;
  // Nobody asks for the end of idle work as such: its text goes on.
  if (!run.request.idle) extras.logits = logits;
  extras.snapshot = core_.shape().HasSnapshot() &&
                    (extras.prompt_end ||
                     std::binary_search(run.snapshots.begin(), run.snapshots.end(), lane.end()));
  extras.part_start =
      !extras.prompt_end && std::binary_search(run.parts.begin(), run.parts.end(), lane.end());
  Record(lane, extras);
  run.report.record_ms += core_.MillisecondsSince(start);
}

void Recorder::AfterStep(Run& run) {
  Lane& lane = *run.lane;
  // Rows computed token by token are never restored bit-exactly: not worth their bytes.
  if (!lane.keep || core_.BitExact() || lane.end() < lane.record_again_from) return;
  const Pos spacing = SnapshotSpacing();
  if (spacing > 0 && lane.end() % spacing == 0) {
    SnapshotNow(lane);
    return;
  }
  const bool page_full = lane.end() % core_.cache.options().page_tokens == 0;
  // The next step overwrites the oldest held row; it must have been recorded by then.
  const bool forgetting =
      core_.shape().HasWindow() && core_.runtime.WindowHeldFrom(lane.seq) >= lane.recorded_end;
  if (page_full || forgetting) Record(lane, {});
}

// Tokens between two snapshots of an answer, as the planner spaces those of a prompt; 0: none.
Pos Recorder::SnapshotSpacing() const {
  if (!core_.shape().HasSnapshot()) return 0;
  const Pos chunk = core_.info().chunk;
  return (core_.options.snapshot_spacing + chunk - 1) / chunk * chunk;
}

void Recorder::AtEnd(Run& run) {
  Lane& lane = *run.lane;
  if (!lane.keep || lane.resident.empty()) return;
  const bool generated = lane.end() > run.prompt_tokens;
  if (generated && core_.BitExact()) return;
  if (lane.recorded_end == lane.end() && !core_.shape().HasSnapshot()) return;
  Record(lane, {.snapshot = core_.shape().HasSnapshot(),
                .prompt_end = false,
                .answer_end = generated,
                .part_start = false,
                .logits = {}});
}

void Recorder::BeforeLoss(Lane& lane) {
  if (!lane.keep || core_.BitExact() || lane.recorded_end >= lane.end()) return;
  Record(lane, {.snapshot = core_.shape().HasSnapshot(),
                .prompt_end = false,
                .answer_end = false,
                .part_start = false,
                .logits = {}});
}

bool Recorder::SnapshotNow(Lane& lane) {
  if (!lane.keep || lane.resident.empty() || !core_.shape().HasSnapshot()) return false;
  return Record(lane, {.snapshot = true,
                       .prompt_end = false,
                       .answer_end = false,
                       .part_start = false,
                       .logits = {}});
}

bool Recorder::Record(Lane& lane, const Extras& extras) {
  if (!core_.Caching()) return false;
  RecordRequest request;
  request.ns = lane.ns;
  request.tokens = lane.resident;
  // A promise only for rows that are all on the grid; between the two weaker kinds no reader
  // distinguishes.
  request.provenance = lane.grid_end == lane.end() ? Provenance::kGrid
                       : lane.has_decode_rows      ? Provenance::kDecode
                                                   : Provenance::kPrefill;
  request.window_available_from = core_.runtime.WindowHeldFrom(lane.seq);
  request.snapshot = extras.snapshot;
  request.logits = !extras.logits.empty();
  request.prompt_end = extras.prompt_end;
  request.answer_end = extras.answer_end;
  request.part_start = extras.part_start;
  RecordPlan plan = core_.cache.BeginRecord(request);
  bool recorded = plan.outcome == RecordOutcome::kNothingNew;
  if (plan.ticket) {
    recorded = Fill(lane, *plan.ticket, extras.logits) &&
               core_.cache.Commit(std::move(*plan.ticket)).has_value();
    if (!recorded) ++core_.stats.records_failed;
  }
  if (recorded) {
    lane.recorded_end = lane.end();
  } else {
    lane.record_again_from = lane.end() + core_.cache.options().page_tokens;
  }
  return recorded;
}

bool Recorder::Fill(const Lane& lane, const RecordTicket& ticket, std::span<const float> logits) {
  for (const RecordTicket::Rows& rows : ticket.rows()) {
    if (!core_.runtime.ExportRows(lane.seq, rows.component, rows.positions, rows.buffer))
      return false;
  }
  if (!ticket.snapshot().empty() && !core_.runtime.ExportSnapshot(lane.seq, ticket.snapshot())) {
    return false;
  }
  if (!ticket.logits().empty()) {
    if (ticket.logits().size() != logits.size_bytes()) return false;
    std::memcpy(ticket.logits().data(), logits.data(), logits.size_bytes());
  }
  return true;
}

}  // namespace skippy::engine
