// Single steps and long continuations upon restored state.
#include <fmt/format.h>

#include "certify/evidence.h"
#include "certify/port_run.h"
#include "certify/session.h"
#include "certify/story.h"
#include "runtime/saved_state.h"

namespace skippy::certify {
namespace {

constexpr const char* kStep = "single step";
constexpr const char* kContinuation = "continuation";
constexpr std::uint64_t kSamplerSeed = 42;

// The lane that got the restored state: another one where there is one.
SeqId OtherLane(const Arena& arena) { return SeqId{arena.info().lanes > 1 ? 1U : 0U}; }

// The step after `text`, by the lane that computed the text and by one that got its state.
Status StepUponRestored(Arena& arena, const std::vector<Token>& text, Pos decoded_from, Row& row) {
  runtime::Runtime& port = arena.Tested();
  const SeqId lane{0};
  const SeqId other = OtherLane(arena);
  SKIPPY_TRY(Logits logits, Prefill(port, lane, text, decoded_from));
  for (Pos p = decoded_from; p < text.size(); ++p) {
    SKIPPY_TRY(logits, DecodeOne(port, lane, text[p]));
  }
  SKIPPY_TRY(const runtime::SavedState saved,
             runtime::Save(port, lane, arena.options().page_tokens));
  const Token next = arena.Text(1, 2).front();
  Answer uninterrupted;
  uninterrupted.tokens = {next};
  SKIPPY_TRY(uninterrupted.logits.emplace_back(), DecodeOne(port, lane, next));
  Answer restored;
  restored.tokens = {next};
  SKIPPY_RETURN_IF_ERROR(runtime::RestoreInto(port, other, saved, text, saved.end));
  SKIPPY_TRY(restored.logits.emplace_back(), DecodeOne(port, other, next));
  row.prompt_tokens = static_cast<std::uint32_t>(text.size()) + 1;
  row.cached_tokens = static_cast<std::uint32_t>(text.size());
  row.evaluated_tokens = 1;
  Judge(row, Compare(uninterrupted, restored), false, [] { return 0.0; });
  return {};
}

struct Served {
  const char* tier;
  engine::HitKind kind;
  bool hot;
};
constexpr Served kServed[] = {{"hot", engine::HitKind::kHot, true},
                              {"host pages", engine::HitKind::kWarm, false}};

// `setup`, then `probe` from the tier; judged against a cold run.
Row RunServed(Arena& arena, const Served& served, Exactness exactness, const Ask& setup,
              const Ask& probe, Row row) {
  engine::EngineOptions options;
  options.exactness = exactness;
  options.hot_lanes = served.hot;
  const Pos longest = static_cast<Pos>(probe.prompt.size()) + probe.max_tokens;
  Session session(arena, arena.tested(),
                  {options, served.hot ? 0 : CacheBytes(arena.info(), longest, 3)});
  Result<Answer> first = session.Run(setup);
  if (!first) return Failed(row, first.error().message);
  const std::vector<Told> told = {{setup, std::move(*first)}};
  const Reach reach = served.hot ? HotReach(arena, told, probe, exactness)
                                 : HostReach(arena, told, probe, exactness);
  if (reach.tokens == 0) return DoesNotApply(row, reach.reason);
  const Result<Answer> answer = session.Run(probe);
  if (!answer) return Failed(row, answer.error().message);
  const engine::PromptReport& report = answer->report.prompt;
  FillReport(row, report);
  if (report.hit_kind != served.kind || report.cached_tokens < reach.tokens) {
    return Failed(row, fmt::format("not exercised: {} tokens came from '{}', not {} from '{}'",
                                   report.cached_tokens, engine::HitKindName(report.hit_kind),
                                   reach.tokens, engine::HitKindName(served.kind)));
  }
  const Status judged = JudgeAgainstCold(arena, probe, *answer, row);
  return Settled(std::move(row), judged);
}

}  // namespace

std::vector<Row> SingleStepRows(Arena& arena) {
  const Sizes& sizes = arena.sizes();
  const std::vector<Token> longer = arena.Text(sizes.base + sizes.generated, 0);
  struct Case {
    const char* name;
    Pos length;
    Pos decoded_from;
  };
  const Case cases[] = {{"boundary on the grid", sizes.grid, sizes.grid},
                        {"boundary off the grid", sizes.base, sizes.base},
                        {"after decoded tokens", sizes.base + sizes.generated, sizes.base}};
  std::vector<Row> rows;
  for (const Case& one : cases) {
    Row row = NewRow(kStep, "import", one.name, Promise::kBoth);
    const std::vector<Token> text(longer.begin(), longer.begin() + one.length);
    const Status status = StepUponRestored(arena, text, one.decoded_from, row);
    rows.push_back(Settled(std::move(row), status));
  }
  return rows;
}

std::vector<Row> EngineStepRows(Arena& arena, Exactness exactness) {
  // One token behind the grid: all but it can come from any tier.
  const Ask setup{arena.Text(arena.sizes().grid, 0), 1};
  const Ask probe{Joined(setup.prompt, arena.Text(1, 2)), 1};
  std::vector<Row> rows;
  for (const Served& served : kServed) {
    rows.push_back(RunServed(arena, served, exactness, setup, probe,
                             NewRow(kStep, served.tier, "one token", PromiseOf(exactness))));
  }
  return rows;
}

std::vector<Row> ContinuationRows(Arena& arena, Exactness exactness) {
  const Ask setup{arena.Text(arena.sizes().grid, 0), 1};
  Ask probe{Joined(setup.prompt, arena.Text(arena.sizes().extra, 8)), arena.sizes().continued};
  std::vector<Row> rows;
  for (const bool sampled : {false, true}) {
    probe.seed = sampled ? kSamplerSeed : 0;
    for (const Served& served : kServed) {
      rows.push_back(RunServed(
          arena, served, exactness, setup, probe,
          NewRow(kContinuation, served.tier,
                 fmt::format("{} tokens, {}", probe.max_tokens, sampled ? "seeded" : "greedy"),
                 PromiseOf(exactness))));
    }
  }
  return rows;
}

}  // namespace skippy::certify
