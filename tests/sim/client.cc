#include "client.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace skippy::sim {

using engine::FinishReason;

void Call::OnPromptProgress(const engine::PromptReport& so_far, std::uint32_t processed) {
  if (finished) protocol_error = "progress after the end";
  if (so_far.cached_tokens + so_far.evaluated_tokens != processed) {
    protocol_error = fmt::format("progress says {} cached and {} evaluated of {} processed",
                                 so_far.cached_tokens, so_far.evaluated_tokens, processed);
  }
}

engine::GenerationSink::Next Call::OnToken(Token token, std::span<const float> token_logits) {
  if (finished) protocol_error = "a token after the end";
  tokens.push_back(token);
  logits.emplace_back(token_logits.begin(), token_logits.end());
  return tokens.size() >= stop_after ? Next::kStop : Next::kContinue;
}

void Call::OnFinish(const engine::GenerationReport& the_report) {
  if (finished) protocol_error = "finished twice";
  finished = true;
  report = the_report;
}

namespace {

std::string WrongWithReport(const Call& call, const Judge& judge) {
  const engine::PromptReport& prompt = call.report.prompt;
  const FinishReason finish = call.report.finish;
  if (prompt.prompt_tokens != call.request.prompt.size())
    return "the report's prompt length is wrong";
  const std::uint64_t sum = std::uint64_t{prompt.cached_tokens} + prompt.evaluated_tokens;
  const bool whole =
      finish == FinishReason::kStop || finish == FinishReason::kLength || !call.tokens.empty();
  if (whole ? sum != prompt.prompt_tokens : sum > prompt.prompt_tokens) {
    return fmt::format("{} cached and {} evaluated of {}", prompt.cached_tokens,
                       prompt.evaluated_tokens, prompt.prompt_tokens);
  }
  if (prompt.cached_hot + prompt.cached_warm != prompt.cached_tokens) return "tiers do not add up";
  if ((prompt.hit_kind == engine::HitKind::kNone) != (prompt.cached_tokens == 0)) {
    return "the hit kind does not fit the cached tokens";
  }
  if (call.report.generated_tokens != call.tokens.size()) return "generated tokens do not add up";
  if ((finish == FinishReason::kError) != call.report.error.has_value())
    return "error without an error";
  if (finish == FinishReason::kError && !judge.may_fail) {
    return "failed without a cause: " + call.report.error->message;
  }
  if (finish == FinishReason::kCancelled && !call.gone) return "cancelled, but nobody asked for it";
  return {};
}

std::string WrongWithAnswer(const Call& call, const Judge& judge) {
  const ColdAnswer& cold = judge.oracle.Answer(call.request);
  const FinishReason finish = call.report.finish;
  const std::size_t whole = std::min(cold.tokens.size(), call.stop_after);
  const bool complete = finish == FinishReason::kStop || finish == FinishReason::kLength;
  if (complete ? call.tokens.size() != whole : call.tokens.size() > whole) {
    return fmt::format("{} tokens where a cold run gives {}", call.tokens.size(), whole);
  }
  for (std::size_t i = 0; i < call.tokens.size(); ++i) {
    if (call.tokens[i] != cold.tokens[i]) {
      return fmt::format("token {} is {} where a cold run gives {}; hit {} of {}, cached {}", i,
                         call.tokens[i], cold.tokens[i],
                         engine::HitKindName(call.report.prompt.hit_kind),
                         call.request.prompt.size(), call.report.prompt.cached_tokens);
    }
    if (judge.bit_exact && call.logits[i] != cold.logits[i]) {
      return fmt::format("the logits of token {} differ from a cold run's; hit {} of {}, cached {}",
                         i, engine::HitKindName(call.report.prompt.hit_kind),
                         call.request.prompt.size(), call.report.prompt.cached_tokens);
    }
  }
  return {};
}

}  // namespace

std::string WrongWith(const Call& call, const Judge& judge) {
  std::string wrong = call.protocol_error;
  if (wrong.empty() && !call.finished) wrong = "never finished";
  if (wrong.empty()) wrong = WrongWithReport(call, judge);
  if (wrong.empty()) wrong = WrongWithAnswer(call, judge);
  if (!wrong.empty()) wrong = fmt::format("request {}: {}", call.id.value, wrong);
  return wrong;
}

std::uint64_t TraceOf(const Call& call) {
  using runtime::fake::Mix;
  std::uint64_t hash = Mix(call.id.value, call.tokens.size());
  for (const Token token : call.tokens) hash = Mix(hash, static_cast<std::uint64_t>(token));
  const engine::PromptReport& prompt = call.report.prompt;
  hash = Mix(hash, Mix(prompt.cached_hot, prompt.cached_warm));
  hash = Mix(hash, Mix(prompt.evaluated_tokens, prompt.first_different));
  hash = Mix(hash, Mix(static_cast<std::uint64_t>(prompt.hit_kind),
                       static_cast<std::uint64_t>(prompt.miss_reason)));
  return Mix(hash, Mix(static_cast<std::uint64_t>(call.report.finish), call.report.lane.value));
}

}  // namespace skippy::sim
