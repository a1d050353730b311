// Requests beside each other, and a context filled to its end.
#include <fmt/format.h>

#include <algorithm>

#include "certify/evidence.h"
#include "certify/session.h"
#include "certify/story.h"

namespace skippy::certify {
namespace {

constexpr const char* kInterleaved = "interleaved lanes";
constexpr const char* kFullContext = "context filled to the end";
constexpr std::uint32_t kMostOthers = 3;
constexpr Pos kPositionsLeft = 6;

// All at once, stepped to the end. The most lanes that were busy while the first request ran.
Result<std::size_t> RunTogether(Session& session, const std::vector<Ask>& asks,
                                std::vector<Answer>& answers) {
  std::vector<std::shared_ptr<CaptureSink>> sinks;
  for (const Ask& ask : asks) {
    SKIPPY_TRY(sinks.emplace_back(), session.Submit(ask));
  }
  std::size_t most = 0;
  while (session.engine().Step()) {
    if (sinks.front()->finished) continue;
    const auto lanes = session.engine().Lanes();
    const auto busy = std::count_if(lanes.begin(), lanes.end(),
                                    [](const engine::LaneStatus& lane) { return lane.busy; });
    most = std::max(most, static_cast<std::size_t>(busy));
  }
  for (const auto& sink : sinks) {
    SKIPPY_TRY(answers.emplace_back(), session.Take(*sink));
  }
  return most;
}

Status Interleave(Arena& arena, bool hot, Exactness exactness, std::vector<Row>& rows) {
  engine::EngineOptions options;
  options.exactness = exactness;
  options.hot_lanes = hot;
  const Sizes& sizes = arena.sizes();
  const std::uint32_t others = std::min(arena.info().lanes - 1, kMostOthers);
  Session session(arena, arena.tested(),
                  {options, hot ? 0 : CacheBytes(arena.info(), sizes.base + sizes.extra, 8)});
  const Ask setup{arena.Text(sizes.grid, 0), 1};
  SKIPPY_TRY(Answer first, session.Run(setup));
  std::vector<Ask> asks = {{Joined(setup.prompt, arena.Text(sizes.extra, 9)), 2 * sizes.generated}};
  for (std::uint32_t i = 0; i < others; ++i)
    asks.push_back({UnrelatedText(arena, sizes.base, i), 2 * sizes.generated});
  const std::vector<Told> told = {{setup, std::move(first)}};
  const Reach reach =
      hot ? HotReach(arena, told, asks[0], exactness) : HostReach(arena, told, asks[0], exactness);
  if (reach.tokens == 0) {
    rows[0] = DoesNotApply(std::move(rows[0]), reach.reason);
    return {};
  }
  std::vector<Answer> answers;
  SKIPPY_TRY(const std::size_t busy, RunTogether(session, asks, answers));
  const engine::PromptReport& report = answers[0].report.prompt;
  FillReport(rows[0], report);
  const auto kind = hot ? engine::HitKind::kHot : engine::HitKind::kWarm;
  if (busy < 2 || report.hit_kind != kind || report.cached_tokens < reach.tokens) {
    rows[0].reason = fmt::format("not exercised: {} lanes were busy, {} tokens came from '{}'",
                                 busy, report.cached_tokens, engine::HitKindName(report.hit_kind));
    return {};
  }
  SKIPPY_RETURN_IF_ERROR(JudgeAgainstCold(arena, asks[0], answers[0], rows[0]));
  // The others must not notice either; the worst of them speaks for all.
  for (std::size_t i = 1; i < asks.size(); ++i) {
    Row other = rows[0];
    SKIPPY_RETURN_IF_ERROR(JudgeAgainstCold(arena, asks[i], answers[i], other));
    if (other.verdict > rows[0].verdict) rows[0] = std::move(other);
  }
  return {};
}

Status FillContext(Arena& arena, Exactness exactness, std::vector<Row>& rows) {
  engine::EngineOptions options;
  options.exactness = exactness;
  options.hot_lanes = false;
  const Pos context = arena.info().context;
  Session session(arena, arena.tested(), {options, CacheBytes(arena.info(), context, 3)});
  const std::vector<Token> text = arena.Text(context - kPositionsLeft, 0);
  const Pos half = arena.FloorToGrid(static_cast<Pos>(text.size()) / 2);
  const Ask setup{std::vector<Token>(text.begin(), text.begin() + half), 1};
  SKIPPY_TRY([[maybe_unused]] const Answer first, session.Run(setup));
  // More than fits: the answer ends where the context does.
  const Ask probe{text, 4 * kPositionsLeft};
  const Pos reach[] = {half, arena.FloorToGrid(static_cast<Pos>(text.size()) - 1)};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    SKIPPY_TRY(const Answer answer, session.Run(probe));
    const engine::PromptReport& report = answer.report.prompt;
    FillReport(rows[i], report);
    if (report.hit_kind != engine::HitKind::kWarm || report.cached_tokens < reach[i]) {
      rows[i].reason =
          fmt::format("not exercised: {} tokens came from '{}', not {}", report.cached_tokens,
                      engine::HitKindName(report.hit_kind), reach[i]);
    } else if (answer.tokens.size() != kPositionsLeft + 1) {
      rows[i].reason = fmt::format("the answer has {} tokens, not the {} that fit",
                                   answer.tokens.size(), kPositionsLeft + 1);
    } else {
      SKIPPY_RETURN_IF_ERROR(JudgeAgainstCold(arena, probe, answer, rows[i]));
    }
  }
  return {};
}

// Rows not judged yet when an error came fail with its message.
std::vector<Row> Finished(std::vector<Row> rows, const Status& status) {
  for (Row& row : rows) {
    if (!status && row.compared == 0) row = Failed(std::move(row), status.error().message);
  }
  return rows;
}

}  // namespace

std::vector<Row> InterleavedRows(Arena& arena, Exactness exactness) {
  std::vector<Row> all;
  for (const bool hot : {true, false}) {
    std::vector<Row> rows = {NewRow(kInterleaved, hot ? "hot" : "host pages",
                                    "others prefill and decode", PromiseOf(exactness))};
    if (arena.info().lanes < 2) {
      all.push_back(DoesNotApply(std::move(rows[0]), "there is one lane"));
      continue;
    }
    const Status status = Interleave(arena, hot, exactness, rows);
    for (Row& row : Finished(std::move(rows), status)) all.push_back(std::move(row));
  }
  return all;
}

std::vector<Row> FullContextRows(Arena& arena, Exactness exactness) {
  std::vector<Row> rows = {
      NewRow(kFullContext, "host pages", "second half new", PromiseOf(exactness)),
      NewRow(kFullContext, "host pages", "exact repeat", PromiseOf(exactness))};
  const Status status = FillContext(arena, exactness, rows);
  return Finished(std::move(rows), status);
}

}  // namespace skippy::certify
