#include "certify/arena.h"

#include <fmt/format.h>

#include <algorithm>

#include "certify/port_run.h"
#include "certify/sampler.h"
#include "certify/session.h"
#include "skippy/random.h"

namespace skippy::certify {
namespace {

// llama.cpp rounds a window's ring up to so many cells; a text must be longer to turn it.
constexpr Pos kRingSlack = 256;

Pos RoundUp(Pos value, Pos to) { return (value + to - 1) / to * to; }

}  // namespace

namespace {

Sizes SizesWithRing(const runtime::RuntimeInfo& info, std::uint32_t continued, Pos slack) {
  const Pos chunk = info.chunk;
  Sizes sizes;
  sizes.continued = continued;
  sizes.grid = 2 * chunk;
  if (info.shape.HasWindow()) {
    const Pos ring = info.shape.window_tokens + chunk + slack;
    sizes.grid = RoundUp(std::max(sizes.grid, ring + chunk), chunk);
  }
  sizes.base = sizes.grid + std::min(chunk / 4 + 3, chunk - 1);
  sizes.extra = std::max<Pos>(6, chunk / 2 + 5);
  return sizes;
}

}  // namespace

Sizes SizesFor(const runtime::RuntimeInfo& info, std::uint32_t continued) {
  const Sizes sizes = SizesWithRing(info, continued, kRingSlack);
  if (sizes.Needed() <= info.context) return sizes;
  // Rings of other runtimes are not rounded up, and one that is as long as the context never turns.
  return SizesWithRing(info, continued, std::min(info.chunk, kRingSlack));
}

void ClearLanes(runtime::Runtime& runtime) {
  for (std::uint32_t lane = 0; lane < runtime.info().lanes; ++lane) runtime.Clear(SeqId{lane});
}

Result<std::unique_ptr<Arena>> Arena::Make(Subject& subject, const runtime::RuntimeOptions& runtime,
                                           const ArenaOptions& options) {
  SKIPPY_TRY(auto tested, subject.NewRuntime(runtime));
  const runtime::RuntimeInfo& info = tested->info();
  const Sizes sizes = SizesFor(info, options.continued);
  if (sizes.Needed() > info.context) {
    return Err(
        ErrorCode::kInvalidArgument,
        fmt::format("the context is too small: the evidence needs {} positions a lane (chunks of "
                    "{}{}), the context has {}; use a larger --ctx-size or a smaller "
                    "--ubatch-size",
                    sizes.Needed(), info.chunk,
                    info.shape.HasWindow()
                        ? fmt::format(", a window of {}", info.shape.window_tokens)
                        : std::string(),
                    info.context));
  }
  SKIPPY_TRY(auto cold, subject.NewRuntime(runtime));
  return std::unique_ptr<Arena>(
      new Arena(subject, std::move(tested), std::move(cold), sizes, options));
}

Arena::Arena(Subject& subject, std::unique_ptr<runtime::Runtime> tested,
             std::unique_ptr<runtime::Runtime> cold, const Sizes& sizes,
             const ArenaOptions& options)
    : subject_(subject),
      owned_tested_(std::move(tested)),
      owned_cold_(std::move(cold)),
      tested_(owned_tested_.get()),
      cold_(owned_cold_.get()),
      sizes_(sizes),
      options_(options) {}

Arena::Arena(Subject& subject, runtime::Runtime& shared, const Sizes& sizes,
             const ArenaOptions& options)
    : subject_(subject), tested_(&shared), cold_(&shared), sizes_(sizes), options_(options) {}

runtime::Runtime& Arena::Tested() {
  ClearLanes(*tested_);
  return *tested_;
}

std::vector<Token> Arena::Text(std::size_t count, std::uint64_t which) {
  return subject_.Text(count, SplitMix64(options_.seed) ^ which);
}

Result<std::unique_ptr<runtime::Sampler>> Arena::MakeSampler(std::uint64_t seed) {
  if (seed == 0) return std::unique_ptr<runtime::Sampler>(std::make_unique<GreedySampler>());
  return subject_.MakeSampler(seed);
}

Result<const Answer*> Arena::Cold(const Ask& ask) {
  Key key(ask.prompt, ask.max_tokens, ask.seed);
  if (const auto it = answers_.find(key); it != answers_.end()) return &it->second;
  engine::EngineOptions engine;
  engine.cache = false;
  engine.hot_lanes = false;
  engine.share_prefill = false;
  engine.exactness = Exactness::kBit;  // each sequence decodes alone
  Session session(*this, *cold_, {engine, 0});
  Ask plain = ask;
  plain.abort_after = 0;
  SKIPPY_TRY(Answer answer, session.Run(plain));
  if (answer.report.prompt.cached_tokens != 0)
    return Err(ErrorCode::kInternal, "the cold reference reused something");
  return &answers_.insert_or_assign(std::move(key), std::move(answer)).first->second;
}

Result<double> Arena::Noise() {
  if (!noise_) {
    SKIPPY_TRY(noise_, MeasureNoise());
  }
  return *noise_;
}

// The same text, computed with chunk ends half a chunk off the grid, and with its last tokens one
// by one, as generated rows are.
Result<double> Arena::MeasureNoise() {
  const Ask ask{Text(sizes_.base, 0), sizes_.generated};
  SKIPPY_TRY(const Answer* cold, Cold(ask));
  const Pos half = std::max<Pos>(1, info().chunk / 2);
  const SeqId lane{0};
  double noise = 0;
  for (const bool one_by_one : {false, true}) {
    ClearLanes(*cold_);
    const Pos chunked = one_by_one ? sizes_.base - std::min<Pos>(sizes_.base - 1, 16) : sizes_.base;
    SKIPPY_TRY(std::vector<float> logits, PrefillShifted(*cold_, lane, ask.prompt, chunked, half));
    for (Pos p = chunked; p < sizes_.base; ++p) {
      SKIPPY_TRY(logits, DecodeOne(*cold_, lane, ask.prompt[p]));
    }
    // The cold run's own tokens, so that texts stay equal.
    for (std::size_t i = 0; i < cold->logits.size(); ++i) {
      noise = std::max(noise, LargestDifference(cold->logits[i], logits));
      if (i + 1 == cold->logits.size()) break;
      SKIPPY_TRY(logits, DecodeOne(*cold_, lane, cold->tokens[i]));
    }
  }
  ClearLanes(*cold_);
  return noise;
}

}  // namespace skippy::certify
