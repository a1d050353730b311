#include "certify/tier_matrix.h"

#include <fmt/format.h>

#include "certify/evidence.h"
#include "certify/session.h"
#include "certify/story.h"

namespace skippy::certify {
namespace {

Row TierRowOf(Tier tier, Scenario scenario, Exactness exactness) {
  return NewRow("tier matrix", std::string(TierName(tier)), std::string(ScenarioName(scenario)),
                PromiseOf(exactness));
}

engine::EngineOptions EngineOptionsFor(Tier tier, Exactness exactness) {
  engine::EngineOptions options;
  options.exactness = exactness;
  options.hot_lanes = tier == Tier::kHot;
  return options;
}

// A decoded result serves nothing but the same prompt again.
bool DecodedServes(Scenario scenario) {
  return scenario == Scenario::kExactRepeat || scenario == Scenario::kBranch ||
         scenario == Scenario::kUnrelatedBetween || scenario == Scenario::kEvictedAndBack;
}

engine::HitKind KindOf(Tier tier) {
  switch (tier) {
    case Tier::kHot: return engine::HitKind::kHot;
    case Tier::kHost: return engine::HitKind::kWarm;
    case Tier::kDecoded: return engine::HitKind::kDecodedResult;
  }
  return engine::HitKind::kNone;
}

// Empty when the tier served at least what it can.
std::string NotExercised(Tier tier, const Reach& reach, const engine::PromptReport& report) {
  if (report.hit_kind == KindOf(tier) && report.cached_tokens >= reach.tokens) return "";
  return fmt::format("not exercised: {} tokens came from '{}', at least {} should come from '{}'",
                     report.cached_tokens, engine::HitKindName(report.hit_kind), reach.tokens,
                     engine::HitKindName(KindOf(tier)));
}

class TierRow {
 public:
  TierRow(Arena& arena, Tier tier, Scenario scenario, Exactness exactness)
      : arena_(arena),
        tier_(tier),
        exactness_(exactness),
        story_(MakeStory(arena, tier, scenario, exactness)),
        session_(arena, arena.tested(), {EngineOptionsFor(tier, exactness), story_.max_bytes}) {
    row_ = TierRowOf(tier, scenario, exactness);
  }

  Result<Row> Run();

 private:
  Result<bool> Prepare();
  Reach ReachOf() const;
  bool Lost() const;

  Arena& arena_;
  const Tier tier_;
  const Exactness exactness_;
  Story story_;
  Session session_;
  Row row_;
  std::vector<Told> told_;
};

Result<bool> TierRow::Prepare() {
  for (const Ask& ask : story_.setup) {
    SKIPPY_TRY(Answer answer, session_.Run(ask));
    told_.push_back({ask, std::move(answer)});
  }
  if (story_.after_answer) {
    const Told& told = told_[*story_.after_answer];
    story_.probe.prompt = Joined(Joined(told.ask.prompt, told.answer.tokens), story_.next);
  }
  return true;
}

Reach TierRow::ReachOf() const {
  switch (tier_) {
    case Tier::kHot: return HotReach(arena_, told_, story_.probe, exactness_);
    case Tier::kHost: {
      Reach reach = HostReach(arena_, told_, story_.probe, exactness_);
      // What an eviction leaves of the snapshots is the evictor's choice; something must be left.
      if (story_.evicts) reach.tokens = std::min<Pos>(reach.tokens, 1);
      return reach;
    }
    case Tier::kDecoded: return {static_cast<Pos>(story_.probe.prompt.size()), ""};
  }
  return {};
}

// Whether the state was really lost in between.
bool TierRow::Lost() const {
  if (tier_ == Tier::kHot) return told_.back().answer.report.prompt.cached_tokens == 0;
  return const_cast<Session&>(session_).cache().Stats().evicted_bytes > 0;
}

Result<Row> TierRow::Run() {
  SKIPPY_TRY([[maybe_unused]] const bool prepared, Prepare());
  const Reach reach = ReachOf();
  if (reach.tokens == 0) return DoesNotApply(row_, reach.reason);
  if (story_.evicts && !Lost()) return Failed(row_, "not exercised: nothing was evicted");
  if (story_.forget_lanes) session_.engine().ForgetIdleLanes();
  SKIPPY_TRY(Answer answer, session_.Run(story_.probe));
  const Told probe{story_.probe, std::move(answer)};
  FillReport(row_, probe.answer.report.prompt);
  if (std::string reason = NotExercised(tier_, reach, probe.answer.report.prompt); !reason.empty())
    return Failed(row_, std::move(reason));
  SKIPPY_RETURN_IF_ERROR(JudgeAgainstCold(arena_, probe.ask, probe.answer, row_));
  if (story_.compare_too && row_.verdict != Verdict::kFail) {
    Row other = row_;
    const Told& told = told_[*story_.compare_too];
    SKIPPY_RETURN_IF_ERROR(JudgeAgainstCold(arena_, told.ask, told.answer, other));
    if (other.verdict > row_.verdict) row_ = std::move(other);
  }
  return row_;
}

}  // namespace

std::string_view TierName(Tier tier) {
  switch (tier) {
    case Tier::kHot: return "hot";
    case Tier::kHost: return "host pages";
    case Tier::kDecoded: return "decoded result";
  }
  return "unknown";
}

std::string_view ScenarioName(Scenario scenario) {
  switch (scenario) {
    case Scenario::kAppend: return "append";
    case Scenario::kExactRepeat: return "exact repeat";
    case Scenario::kRewind5: return "rewind 5";
    case Scenario::kRewindMiddle: return "rewind to the middle";
    case Scenario::kBranch: return "branch";
    case Scenario::kUnrelatedBetween: return "unrelated between";
    case Scenario::kEvictedAndBack: return "evicted and back";
    case Scenario::kAbortedAndRetried: return "aborted prefill and retry";
  }
  return "unknown";
}

Row RunTier(Arena& arena, Tier tier, Scenario scenario, Exactness exactness) {
  Row row = TierRowOf(tier, scenario, exactness);
  if (tier == Tier::kDecoded && !DecodedServes(scenario))
    return DoesNotApply(row, "a decoded result serves nothing but the same prompt again");
  if (tier == Tier::kHot && scenario == Scenario::kUnrelatedBetween && arena.info().lanes < 2)
    return DoesNotApply(row, "the only lane is overwritten by the other request");
  TierRow tried(arena, tier, scenario, exactness);
  Result<Row> result = tried.Run();
  return result ? std::move(*result) : Failed(row, result.error().message);
}

}  // namespace skippy::certify
