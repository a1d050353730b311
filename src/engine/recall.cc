#include "engine/recall.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace skippy::engine {
namespace {

// Rows [positions) out of what was recalled; false: they are not all there.
bool CopyRows(const runtime::Recalled& recalled, const RecordTicket::Rows& rows) {
  const std::size_t row_bytes = rows.buffer.size() / rows.positions.size();
  Pos at = rows.positions.begin;
  for (const runtime::Recalled::Rows& source : recalled.rows) {
    if (source.component != rows.component || source.row.size() != row_bytes) continue;
    for (; at < rows.positions.end && at >= source.positions.begin && at < source.positions.end;
         ++at)
      std::memcpy(rows.buffer.data() + (at - rows.positions.begin) * row_bytes, source.row.data(),
                  row_bytes);
  }
  return at == rows.positions.end;
}

bool Fill(const runtime::Recalled& recalled, const RecordTicket& ticket) {
  for (const RecordTicket::Rows& rows : ticket.rows())
    if (!CopyRows(recalled, rows)) return false;
  if (ticket.snapshot().empty()) return true;
  if (ticket.snapshot().size() != recalled.snapshot.size()) return false;
  std::memcpy(ticket.snapshot().data(), recalled.snapshot.data(), recalled.snapshot.size());
  return true;
}

}  // namespace

bool Recall(Core& core, const Run& run, Pos known) {
  const Pos page = core.cache.options().page_tokens;
  const Pos limit = run.prompt_tokens - 1;
  // How the keeper's state was computed is not known, so a bit-exact lookup would not take it.
  if (core.keeper == nullptr || !run.use_cache || core.BitExact() || limit < known + page)
    return false;
  runtime::RecallQuery query;
  query.ns = run.ns;
  query.tokens = run.prompt();
  query.max_boundary = limit;
  query.page = page;
  query.places = run.request.message_starts;
  const Result<runtime::Recalled> recalled = core.keeper->Recall(query);
  if (!recalled || recalled->boundary <= known || recalled->boundary > limit) return false;

  RecordRequest request;
  request.ns = run.ns;
  request.tokens = run.prompt().first(recalled->boundary);
  request.provenance = Provenance::kDecode;  // the weakest claim
  // Window rows before it are not recalled.
  request.window_available_from = core.shape().WindowBegin(recalled->boundary);
  request.snapshot = core.shape().HasSnapshot();
  request.part_start = true;
  RecordPlan plan = core.cache.BeginRecord(request);
  if (!plan.ticket) return plan.outcome == RecordOutcome::kNothingNew;
  return Fill(*recalled, *plan.ticket) && core.cache.Commit(std::move(*plan.ticket)).has_value();
}

}  // namespace skippy::engine
