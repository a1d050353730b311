#include "engine/generation.h"

#include <algorithm>

namespace skippy::engine {

std::optional<Generation::End> Generation::Emit(Run& run, std::span<const float> logits) {
  if (run.generated == 0) run.report.prompt_ms = core_.MillisecondsSince(run.admitted);
  if (run.request.max_tokens == 0) return End{FinishReason::kLength, std::nullopt};
  const Result<Token> sampled = run.request.sampler->Sample(logits);
  if (!sampled) return End{FinishReason::kError, sampled.error()};
  const Token token = *sampled;
  if (token < 0 || static_cast<std::uint32_t>(token) >= core_.info().vocab) {
    return End{FinishReason::kError, Error{ErrorCode::kInternal, "the sampler chose no token"}};
  }
  run.request.sampler->Accept(token);
  run.text.push_back(token);
  ++run.generated;
  if (run.request.sink->OnToken(token, logits) == GenerationSink::Next::kStop) {
    return End{FinishReason::kStop, std::nullopt};
  }
  // The context is full when the sampled token has no position left: the answer ends, nothing is
  // shifted.
  const bool full = run.text.size() > core_.info().context;
  if (run.generated >= run.request.max_tokens || full)
    return End{FinishReason::kLength, std::nullopt};
  return std::nullopt;
}

void Generation::Step(std::span<Run* const> runs, const OnEnd& on_end) {
  std::vector<Run*> rest(runs.begin(), runs.end());
  while (!rest.empty()) {
    std::vector<Run*> group = {rest.front()};
    if (!core_.BitExact() && !group.front()->decode_alone) {
      for (std::size_t i = 1; i < rest.size(); ++i) {
        const bool fits = !rest[i]->decode_alone && rest[i]->adapters == group.front()->adapters;
        if (fits) group.push_back(rest[i]);
      }
    }
    std::erase_if(
        rest, [&](Run* run) { return std::find(group.begin(), group.end(), run) != group.end(); });
    StepGroup(group, on_end);
  }
}

void Generation::StepGroup(std::span<Run* const> group, const OnEnd& on_end) {
  const Tick start = core_.clock.Now();
  Status status = core_.UseAdapters(group.front()->adapters);
  if (status) {
    std::vector<runtime::DecodeItem> items;
    for (const Run* run : group) {
      items.push_back({run->lane->seq, run->lane->end(), TokenSpan(run->text).last(1), true});
    }
    ++core_.stats.decode_calls;
    status = core_.runtime.Decode(items);
  }
  const double elapsed_ms = core_.MillisecondsSince(start);
  core_.stats.decode_seconds += elapsed_ms / 1000.0;
  for (Run* run : group) run->decode_ms += elapsed_ms;
  if (!status) return AfterFailure(group, status.error(), on_end);
  // Every lane's token list first: a sink that ends one run must find all lanes consistent.
  for (Run* run : group) {
    run->lane->resident.push_back(run->text.back());
    run->lane->has_decode_rows = true;
    run->decode_alone = false;
  }
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (auto end = AfterStep(*group[i], i)) on_end(*group[i], std::move(*end));
  }
}

void Generation::AfterFailure(std::span<Run* const> group, const Error& error,
                              const OnEnd& on_end) {
  // Finishing with an error, or refilling, clears the lanes.
  if (group.size() == 1) return on_end(*group.front(), {FinishReason::kError, error});
  for (Run* run : group) {
    run->decode_alone = true;
    admission_.Refill(*run);
  }
}

std::optional<Generation::End> Generation::AfterStep(Run& run, std::size_t item) {
  Lane& lane = *run.lane;
  if (!core_.CheckLane(lane)) {
    return End{FinishReason::kError,
               Error{ErrorCode::kInternal, "after a step the lane does not end where it should"}};
  }
  const std::span<const float> logits = core_.runtime.Logits(item);
  if (!LogitsAreSane(logits)) {
    if (run.redone_cold || run.report.cached_tokens == 0) {
      admission_.CondemnAll(run);
      return End{FinishReason::kError,
                 Error{ErrorCode::kInternal, "the model's logits are not numbers"}};
    }
    admission_.RedoCold(run);
    return std::nullopt;
  }
  recorder_.AfterStep(run);
  return Emit(run, logits);
}

}  // namespace skippy::engine
