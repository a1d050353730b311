#include "certify/port_run.h"

#include <algorithm>

#include "certify/sampler.h"
#include "runtime/saved_state.h"
#include "runtime/state_keeper.h"

namespace skippy::certify {

Result<Logits> PrefillShifted(runtime::Runtime& runtime, SeqId lane, TokenSpan tokens, Pos to,
                              Pos shift) {
  if (runtime.End(lane) >= to || to > tokens.size())
    return Err(ErrorCode::kInvalidArgument, "nothing to prefill");
  const Pos chunk = runtime.info().chunk;
  for (Pos at = runtime.End(lane); at < to;) {
    const Pos end = at < shift ? shift : at - (at - shift) % chunk + chunk;
    const Pos next = std::min(to, end);
    const runtime::DecodeItem item{lane, at, tokens.subspan(at, next - at), next == to};
    SKIPPY_RETURN_IF_ERROR(runtime.Decode({&item, 1}));
    at = next;
  }
  const std::span<const float> logits = runtime.Logits(0);
  return Logits(logits.begin(), logits.end());
}

Result<Logits> Prefill(runtime::Runtime& runtime, SeqId lane, TokenSpan tokens, Pos to) {
  return PrefillShifted(runtime, lane, tokens, to, 0);
}

Result<Logits> DecodeOne(runtime::Runtime& runtime, SeqId lane, Token token) {
  const runtime::DecodeItem item{lane, runtime.End(lane), TokenSpan(&token, 1), true};
  SKIPPY_RETURN_IF_ERROR(runtime.Decode({&item, 1}));
  const std::span<const float> logits = runtime.Logits(0);
  return Logits(logits.begin(), logits.end());
}

Result<Answer> Finish(runtime::Runtime& runtime, SeqId lane, TokenSpan prompt,
                      std::uint32_t steps) {
  Answer answer;
  answer.report.finish = engine::FinishReason::kLength;
  answer.report.prompt.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
  answer.report.prompt.cached_tokens = runtime.End(lane);
  answer.report.prompt.evaluated_tokens =
      static_cast<std::uint32_t>(prompt.size()) - runtime.End(lane);
  SKIPPY_TRY(Logits logits, Prefill(runtime, lane, prompt, static_cast<Pos>(prompt.size())));
  while (answer.tokens.size() < steps) {
    answer.tokens.push_back(ArgMax(logits));
    answer.logits.push_back(std::move(logits));
    if (answer.tokens.size() == steps) break;
    SKIPPY_TRY(logits, DecodeOne(runtime, lane, answer.tokens.back()));
  }
  // A lane that a full state filled cannot be read by rows.
  answer.state = StateDigest(runtime, lane).value_or(std::nullopt);
  return answer;
}

Result<std::optional<Digest>> StateDigest(runtime::Runtime& runtime, SeqId lane) {
  constexpr Pos kPage = 256;
  if (runtime.End(lane) == 0 || dynamic_cast<runtime::StateKeeper*>(&runtime) != nullptr)
    return std::nullopt;
  SKIPPY_TRY(const runtime::SavedState saved, runtime::Save(runtime, lane, kPage));
  Blake3Hasher hasher;
  for (const auto& page : saved.kv) hasher.Update(page);
  hasher.Update(saved.window);
  hasher.Update(saved.snapshot);
  return std::optional<Digest>(hasher.Finish());
}

}  // namespace skippy::certify
