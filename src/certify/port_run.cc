#include "certify/port_run.h"

#include <algorithm>

#include "certify/sampler.h"

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
  if (runtime.End(lane) == 0) return std::nullopt;
  SKIPPY_TRY(const SavedState saved, Save(runtime, lane, kPage));
  Blake3Hasher hasher;
  for (const auto& page : saved.kv) hasher.Update(page);
  hasher.Update(saved.window);
  hasher.Update(saved.snapshot);
  return std::optional<Digest>(hasher.Finish());
}

std::size_t SavedState::bytes() const {
  std::size_t sum = window.size() + snapshot.size();
  for (const auto& page_bytes : kv) sum += page_bytes.size();
  return sum;
}

Result<SavedState> Save(runtime::Runtime& runtime, SeqId lane, Pos page) {
  const MemoryShape& shape = runtime.info().shape;
  SavedState saved;
  saved.end = runtime.End(lane);
  saved.page = page;
  for (Pos at = 0; shape.HasKv() && at < saved.end; at += page) {
    const PosRange rows{at, std::min(saved.end, at + page)};
    auto& block = saved.kv.emplace_back(rows.size() * shape.kv_row_bytes);
    SKIPPY_RETURN_IF_ERROR(runtime.ExportRows(lane, Component::kKv, rows, block));
  }
  if (shape.HasWindow()) {
    saved.window_from = shape.WindowBegin(saved.end);
    const PosRange rows{saved.window_from, saved.end};
    saved.window.resize(rows.size() * shape.window_row_bytes);
    SKIPPY_RETURN_IF_ERROR(runtime.ExportRows(lane, Component::kWindow, rows, saved.window));
  }
  if (shape.HasSnapshot()) {
    saved.snapshot.resize(shape.snapshot_bytes);
    SKIPPY_RETURN_IF_ERROR(runtime.ExportSnapshot(lane, saved.snapshot));
  }
  return saved;
}

Status Restore(runtime::Runtime& runtime, SeqId lane, const SavedState& saved, TokenSpan tokens) {
  std::vector<RowSlice> kv;
  for (std::size_t i = 0; i < saved.kv.size(); ++i) {
    const Pos begin = static_cast<Pos>(i) * saved.page;
    const Pos rows = std::min(saved.end - begin, saved.page);
    kv.push_back({saved.kv[i], rows, 0, {begin, begin + rows}});
  }
  std::vector<RowSlice> window;
  if (!saved.window.empty()) {
    window.push_back(
        {saved.window, saved.end - saved.window_from, 0, {saved.window_from, saved.end}});
  }
  return runtime.Import({.lane = lane,
                         .end = saved.end,
                         .tokens = tokens.first(saved.end),
                         .kv = kv,
                         .window = window,
                         .snapshot = saved.snapshot});
}

}  // namespace skippy::certify
