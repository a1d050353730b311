#include "certify/evidence.h"

namespace skippy::certify {

Row NewRow(std::string group, std::string tier, std::string scenario, Promise promise) {
  Row row;
  row.group = std::move(group);
  row.tier = std::move(tier);
  row.scenario = std::move(scenario);
  row.promise = promise;
  return row;
}

Row Failed(Row row, std::string reason) {
  row.verdict = Verdict::kFail;
  row.reason = std::move(reason);
  return row;
}

Row DoesNotApply(Row row, std::string reason) {
  row.verdict = Verdict::kNotApplicable;
  row.reason = std::move(reason);
  return row;
}

void FillReport(Row& row, const engine::PromptReport& report) {
  row.prompt_tokens = report.prompt_tokens;
  row.cached_tokens = report.cached_tokens;
  row.evaluated_tokens = report.evaluated_tokens;
}

Status JudgeAgainstCold(Arena& arena, const Ask& ask, const Answer& answer, Row& row) {
  SKIPPY_TRY(const Answer* cold, arena.Cold(ask));
  FillReport(row, answer.report.prompt);
  Status noise_status;
  Judge(row, Compare(*cold, answer), ask.seed != 0, [&] {
    const Result<double> noise = arena.Noise();
    if (!noise) noise_status = tl::unexpected<Error>(noise.error());
    return noise ? *noise : 0.0;
  });
  return noise_status;
}

Row Settled(Row row, const Status& status) {
  return status ? std::move(row) : Failed(std::move(row), status.error().message);
}

}  // namespace skippy::certify
