// The tier matrix' sequence copies, at the port.
#include <fmt/format.h>

#include "certify/port_run.h"
#include "certify/story.h"
#include "certify/tier_matrix.h"

namespace skippy::certify {
namespace {

constexpr SeqId kFrom{0};
constexpr SeqId kTo{1};

class CopyRow {
 public:
  explicit CopyRow(Arena& arena) : arena_(arena), sizes_(arena.sizes()), port_(arena.Tested()) {
    base_ = arena.Text(sizes_.base, 0);
  }

  // Fills the row by comparing what lane kTo answers to `prompt` with a cold run.
  Status Try(Scenario scenario, Row& row);

 private:
  std::vector<Token> More(std::uint64_t which) { return arena_.Text(sizes_.extra, which); }
  std::vector<Token> OnGrid() { return arena_.Text(sizes_.grid, 0); }
  std::vector<Token> Cut(Pos length) {
    return std::vector<Token>(base_.begin(), base_.begin() + length);
  }

  Status RunTo(SeqId lane, const std::vector<Token>& text, Pos to) {
    SKIPPY_TRY([[maybe_unused]] const Logits logits, Prefill(port_, lane, text, to));
    return {};
  }
  Status CopyAt(Pos boundary);
  Status Check(SeqId lane, const std::vector<Token>& prompt, Row& row);

  Arena& arena_;
  const Sizes& sizes_;
  runtime::Runtime& port_;
  std::vector<Token> base_;
};

// Lane kTo at `boundary` of the base text, out of lane kFrom that went on to its end: by a cut of
// the copy where the memory can be cut there, else by a copy taken in passing.
Status CopyRow::CopyAt(Pos boundary) {
  const MemoryShape& shape = arena_.shape();
  SKIPPY_RETURN_IF_ERROR(RunTo(kFrom, base_, boundary));
  if (shape.HasSnapshot()) SKIPPY_RETURN_IF_ERROR(port_.Copy(kFrom, kTo));
  SKIPPY_RETURN_IF_ERROR(RunTo(kFrom, base_, sizes_.base));
  if (shape.HasSnapshot()) return {};
  SKIPPY_RETURN_IF_ERROR(port_.Copy(kFrom, kTo));
  if (port_.Truncate(kTo, boundary)) return {};
  port_.Clear(kFrom);
  port_.Clear(kTo);
  SKIPPY_RETURN_IF_ERROR(RunTo(kFrom, base_, boundary));
  SKIPPY_RETURN_IF_ERROR(port_.Copy(kFrom, kTo));
  return RunTo(kFrom, base_, sizes_.base);
}

Status CopyRow::Check(SeqId lane, const std::vector<Token>& prompt, Row& row) {
  SKIPPY_TRY(const Answer* cold, arena_.Cold({prompt, sizes_.generated}));
  SKIPPY_TRY(const Answer answer, Finish(port_, lane, prompt, sizes_.generated));
  row.prompt_tokens = answer.report.prompt.prompt_tokens;
  row.cached_tokens = answer.report.prompt.cached_tokens;
  row.evaluated_tokens = answer.report.prompt.evaluated_tokens;
  Judge(row, Compare(*cold, answer), false, [] { return 0.0; });
  if (row.verdict == Verdict::kBit) row.reason = "at the port: the engine copies no sequences";
  return {};
}

Status CopyRow::Try(Scenario scenario, Row& row) {
  const std::vector<Token> next_turn = Joined(OnGrid(), More(2));
  const std::vector<Token> other = UnrelatedText(arena_, sizes_.base, 0);
  const auto copied_at = [&](Pos common, const std::vector<Token>& prompt) -> Status {
    SKIPPY_RETURN_IF_ERROR(CopyAt(arena_.FloorToGrid(common)));
    return Check(kTo, prompt, row);
  };
  if (scenario == Scenario::kExactRepeat) return copied_at(sizes_.base - 1, base_);
  if (scenario == Scenario::kRewind5)
    return copied_at(sizes_.base - 5, Joined(Cut(sizes_.base - 5), More(3)));
  if (scenario == Scenario::kRewindMiddle)
    return copied_at(sizes_.base / 2, Joined(Cut(sizes_.base / 2), More(4)));
  if (scenario == Scenario::kAbortedAndRetried) {
    SKIPPY_RETURN_IF_ERROR(RunTo(kFrom, base_, arena_.FloorToGrid(sizes_.base - 1)));
    SKIPPY_RETURN_IF_ERROR(port_.Copy(kFrom, kTo));
    port_.Clear(kFrom);
    return Check(kTo, base_, row);
  }
  SKIPPY_RETURN_IF_ERROR(RunTo(kFrom, base_, sizes_.grid));
  SKIPPY_RETURN_IF_ERROR(port_.Copy(kFrom, kTo));
  switch (scenario) {
    case Scenario::kBranch:
      SKIPPY_RETURN_IF_ERROR(Check(kFrom, Joined(OnGrid(), More(5)), row));
      if (row.verdict != Verdict::kBit) return {};
      return Check(kTo, Joined(OnGrid(), More(6)), row);
    case Scenario::kUnrelatedBetween:
      port_.Clear(kFrom);
      SKIPPY_RETURN_IF_ERROR(RunTo(kFrom, other, sizes_.base));
      break;
    case Scenario::kEvictedAndBack:
      port_.Clear(kTo);
      SKIPPY_RETURN_IF_ERROR(RunTo(kTo, other, sizes_.base));
      port_.Clear(kTo);
      SKIPPY_RETURN_IF_ERROR(port_.Copy(kFrom, kTo));
      break;
    default: break;
  }
  return Check(kTo, next_turn, row);
}

}  // namespace

Row RunCopy(Arena& arena, Scenario scenario) {
  Row row;
  row.group = "tier matrix";
  row.tier = kCopyTierName;
  row.scenario = ScenarioName(scenario);
  if (arena.info().lanes < 2) {
    row.verdict = Verdict::kNotApplicable;
    row.reason = "a copy needs two lanes";
    return row;
  }
  const Status tried = CopyRow(arena).Try(scenario, row);
  if (tried) return row;
  row.verdict =
      tried.error().code == ErrorCode::kUnsupported ? Verdict::kNotApplicable : Verdict::kFail;
  row.reason = tried.error().message;
  return row;
}

}  // namespace skippy::certify
