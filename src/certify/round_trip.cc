// State round trips: by component, and of the whole state that the library itself writes.
#include <fmt/format.h>

#include <algorithm>

#include "certify/evidence.h"
#include "certify/port_run.h"
#include "runtime/full_state.h"
#include "runtime/saved_state.h"
#include "runtime/state_keeper.h"

namespace skippy::certify {
namespace {

constexpr const char* kGroup = "state round trip";
constexpr const char* kFullState = "full_state";

SeqId OtherLane(const Arena& arena) { return SeqId{arena.info().lanes > 1 ? 1U : 0U}; }

std::optional<std::uint64_t> FirstDifference(ByteSpan a, ByteSpan b) {
  const auto [at, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (at == a.end() && other == b.end()) return std::nullopt;
  return static_cast<std::uint64_t>(at - a.begin());
}

void JudgeBytes(Row& row, ByteSpan first, ByteSpan again) {
  row.first_difference = FirstDifference(first, again);
  row.verdict = row.first_difference ? Verdict::kFail : Verdict::kBit;
  if (row.first_difference)
    row.reason = fmt::format("byte {} of {} differs", *row.first_difference, first.size());
}

std::vector<std::byte> Flat(const runtime::SavedState& saved) {
  std::vector<std::byte> bytes;
  for (const auto& page : saved.kv) bytes.insert(bytes.end(), page.begin(), page.end());
  return bytes;
}

struct Trip {
  runtime::SavedState before;
  runtime::SavedState after;
  Pos held_from = 0;  // of the window, by the lane that computed it
};

Result<Trip> MakeTrip(Arena& arena, const std::vector<Token>& text, Pos decoded_from) {
  runtime::Runtime& port = arena.Tested();
  const SeqId lane{0};
  SKIPPY_TRY([[maybe_unused]] Logits logits, Prefill(port, lane, text, decoded_from));
  for (Pos p = decoded_from; p < text.size(); ++p) {
    SKIPPY_TRY(logits, DecodeOne(port, lane, text[p]));
  }
  Trip trip;
  trip.held_from = port.WindowHeldFrom(lane);
  SKIPPY_TRY(trip.before, runtime::Save(port, lane, arena.options().page_tokens));
  const SeqId other = OtherLane(arena);
  SKIPPY_RETURN_IF_ERROR(runtime::RestoreInto(port, other, trip.before, text, trip.before.end));
  SKIPPY_TRY(trip.after, runtime::Save(port, other, arena.options().page_tokens));
  return trip;
}

std::vector<Row> TripRows(Arena& arena, const char* where, const std::vector<Token>& text,
                          Pos decoded_from) {
  const MemoryShape& shape = arena.shape();
  std::vector<Row> rows;
  if (dynamic_cast<runtime::StateKeeper*>(&arena.tested()) != nullptr) {
    rows.push_back(DoesNotApply(NewRow(kGroup, "names", where, Promise::kBoth),
                                "the state stays where it is: its names say nothing of its bytes"));
    return rows;
  }
  const Result<Trip> trip = MakeTrip(arena, text, decoded_from);
  const auto add = [&](const char* component, bool there, const auto& bytes) {
    Row row = NewRow(kGroup, component, where, Promise::kBoth);
    row.cached_tokens = static_cast<std::uint32_t>(text.size());
    row.prompt_tokens = row.cached_tokens;
    if (!there) {
      row = DoesNotApply(std::move(row), "this memory has no such component");
    } else if (!trip) {
      row = Failed(std::move(row), trip.error().message);
    } else {
      JudgeBytes(row, bytes(trip->before), bytes(trip->after));
    }
    rows.push_back(std::move(row));
  };
  add("KV rows", shape.HasKv(), Flat);
  add("window rows", shape.HasWindow(),
      [](const runtime::SavedState& saved) { return saved.window; });
  if (trip && shape.HasWindow() && trip->held_from == 0 && rows.back().reason.empty())
    rows.back().reason = "this text did not turn the window's ring";
  add("snapshot", shape.HasSnapshot(),
      [](const runtime::SavedState& saved) { return saved.snapshot; });
  return rows;
}

// The base text, cut at the grid by a full state that went out and in again.
Status GoOnFromFullState(Arena& arena, runtime::FullStateAccess& access, Row& row) {
  runtime::Runtime& port = arena.Tested();
  const std::vector<Token> text = arena.Text(arena.sizes().base, 0);
  SKIPPY_TRY([[maybe_unused]] const Logits logits,
             Prefill(port, SeqId{0}, text, arena.sizes().grid));
  SKIPPY_TRY(const std::vector<std::byte> state, access.ExportFullState(SeqId{0}));
  const SeqId other = OtherLane(arena);
  port.Clear(other);
  SKIPPY_RETURN_IF_ERROR(access.ImportFullState(other, state));
  SKIPPY_TRY(const Answer answer, Finish(port, other, text, arena.sizes().generated));
  const Status judged = JudgeAgainstCold(arena, {text, arena.sizes().generated}, answer, row);
  port.Clear(other);
  return judged;
}

// What the components restored is all that the library itself thinks is state.
Status ComponentsAreAll(Arena& arena, runtime::FullStateAccess& access, Row& row) {
  runtime::Runtime& port = arena.Tested();
  const SeqId lane{0};
  const std::vector<Token> text = arena.Text(arena.sizes().grid, 0);
  SKIPPY_TRY([[maybe_unused]] const Logits logits, Prefill(port, lane, text, arena.sizes().grid));
  SKIPPY_TRY(const std::vector<std::byte> before, access.ExportFullState(lane));
  SKIPPY_TRY(const runtime::SavedState saved,
             runtime::Save(port, lane, arena.options().page_tokens));
  port.Clear(lane);
  SKIPPY_RETURN_IF_ERROR(runtime::RestoreInto(port, lane, saved, text, saved.end));
  SKIPPY_TRY(const std::vector<std::byte> after, access.ExportFullState(lane));
  row.prompt_tokens = row.cached_tokens = static_cast<std::uint32_t>(text.size());
  JudgeBytes(row, before, after);
  return {};
}

}  // namespace

std::vector<Row> GridRoundTripRows(Arena& arena) {
  const Pos grid = arena.sizes().grid;
  return TripRows(arena, "boundary on the grid", arena.Text(grid, 0), grid);
}

std::vector<Row> RoundTripRows(Arena& arena) {
  const Sizes& sizes = arena.sizes();
  std::vector<Row> rows = GridRoundTripRows(arena);
  const std::vector<Token> base = arena.Text(sizes.base, 0);
  const std::vector<Token> longer = arena.Text(sizes.base + sizes.generated, 0);
  for (Row& row : TripRows(arena, "boundary off the grid", base, sizes.base))
    rows.push_back(std::move(row));
  for (Row& row : TripRows(arena, "after decoded tokens", longer, sizes.base))
    rows.push_back(std::move(row));
  return rows;
}

std::vector<Row> FullStateRows(Arena& arena) {
  // With the token promise, so that a state that lands on other cells is told as what it is.
  Row on = NewRow(kFullState, "", "export, import, go on", Promise::kToken);
  Row all = NewRow(kFullState, "", "restored from components, exports the same", Promise::kBoth);
  on.reference = all.reference = true;
  auto* access = dynamic_cast<runtime::FullStateAccess*>(&arena.tested());
  if (access == nullptr) {
    const char* reason = "the runtime gives no access to its whole serialised state";
    return {DoesNotApply(on, reason), DoesNotApply(all, reason)};
  }
  const Status went = GoOnFromFullState(arena, *access, on);
  on = Settled(std::move(on), went);
  if (arena.shape().HasWindow()) {
    all = DoesNotApply(std::move(all),
                       "the ring also holds rows older than the window, which nobody reads and a "
                       "restore leaves out");
  } else {
    const Status same = ComponentsAreAll(arena, *access, all);
    all = Settled(std::move(all), same);
  }
  return {on, all};
}

}  // namespace skippy::certify
