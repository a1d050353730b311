// The quick self-test: one session a setting serves all tiers one after the other, so that little
// more than the cold run is computed.
#include <fmt/format.h>

#include <algorithm>

#include "certify/begin.h"
#include "certify/certify.h"
#include "certify/evidence.h"
#include "certify/session.h"
#include "certify/story.h"

namespace skippy::certify {
namespace {

constexpr const char* kGroup = "self-test";

class BorrowedSubject final : public Subject {
 public:
  explicit BorrowedSubject(const TextSource& text) : text_(text) {}
  Result<std::unique_ptr<runtime::Runtime>> NewRuntime(const runtime::RuntimeOptions&) override {
    return Err(ErrorCode::kUnsupported, "the self-test works on the runtime at hand");
  }
  std::vector<Token> Text(std::size_t count, std::uint64_t seed) override {
    return text_(count, seed);
  }

 private:
  const TextSource& text_;
};

// A whole chunk, or as many as turn the window's ring, and a bit more.
Result<Sizes> QuickSizes(const runtime::RuntimeInfo& info, const QuickSettings& settings) {
  Sizes sizes;
  sizes.generated = settings.generated;
  sizes.continued = settings.generated;
  sizes.grid = info.chunk;
  const Sizes full = SizesFor(info, 0);
  if (info.shape.HasWindow() && full.grid <= settings.max_prompt &&
      full.grid + info.chunk <= info.context)
    sizes.grid = full.grid;
  sizes.extra = std::clamp<Pos>(info.chunk / 8, 3, 16);
  Pos needed = sizes.grid + sizes.extra + 2 * sizes.generated;
  // A chunk as large as the context: prompts end within it. Bit-exact reuse needs whole chunks.
  const bool whole_chunks = std::find(settings.exactness.begin(), settings.exactness.end(),
                                      Exactness::kBit) != settings.exactness.end();
  if (needed > info.context && !whole_chunks) {
    sizes.grid = info.context / 2;
    needed = sizes.grid + sizes.extra + 2 * sizes.generated;
  }
  sizes.base = sizes.grid;
  if (needed > info.context) {
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("the context is too small: the self-test needs {} positions a lane "
                           "(chunks of {}), the context has {}; use a larger --ctx-size or a "
                           "smaller --ubatch-size",
                           needed, info.chunk, info.context));
  }
  return sizes;
}

class QuickSession {
 public:
  QuickSession(Arena& arena, Exactness exactness, std::vector<Row>& rows)
      : arena_(arena),
        exactness_(exactness),
        rows_(rows),
        session_(arena, arena.tested(),
                 {OptionsFor(exactness), CacheBytes(arena.info(), arena.sizes().grid + 64, 4)}) {
    first_.prompt = arena.Text(arena.sizes().grid, 0);
    first_.max_tokens = arena.sizes().generated;
    probe_ = first_;
    probe_.prompt = Joined(first_.prompt, arena.Text(arena.sizes().extra, 2));
  }
  const Ask& probe() const { return probe_; }
  Status Run();

 private:
  static engine::EngineOptions OptionsFor(Exactness exactness) {
    engine::EngineOptions options;
    options.exactness = exactness;
    return options;
  }
  void Try(const char* tier, engine::HitKind kind, const char* scenario, const Ask& ask,
           const Answer& cold, Pos reach);

  Arena& arena_;
  const Exactness exactness_;
  std::vector<Row>& rows_;
  Session session_;
  Ask first_;
  Ask probe_;
};

void QuickSession::Try(const char* tier, engine::HitKind kind, const char* scenario, const Ask& ask,
                       const Answer& cold, Pos reach) {
  Row row = NewRow(kGroup, tier, scenario, PromiseOf(exactness_));
  const Result<Answer> answer = session_.Run(ask);
  if (!answer) {
    rows_.push_back(Failed(std::move(row), answer.error().message));
    return;
  }
  const engine::PromptReport& report = answer->report.prompt;
  FillReport(row, report);
  if (report.hit_kind != kind || report.cached_tokens < reach) {
    rows_.push_back(Failed(std::move(row),
                           fmt::format("not exercised: {} tokens came from '{}', not {} from "
                                       "'{}'",
                                       report.cached_tokens, engine::HitKindName(report.hit_kind),
                                       reach, engine::HitKindName(kind))));
    return;
  }
  Judge(row, Compare(cold, *answer), false, [&] { return arena_.Noise().value_or(0.0); });
  rows_.push_back(std::move(row));
}

Status QuickSession::Run() {
  SKIPPY_TRY(const Answer* cold, arena_.Cold(probe_));
  ClearLanes(arena_.tested());
  // With everything empty, the first request is a cold run itself.
  SKIPPY_TRY(Answer first, session_.Run(first_));
  if (first.report.prompt.cached_tokens > 0)
    return Err(ErrorCode::kInternal, "the first request of the self-test was not a cold one");
  const std::vector<Told> told = {{first_, std::move(first)}};
  Reach hot = HotReach(arena_, told, probe_, exactness_);
  const Reach warm = HostReach(arena_, told, probe_, exactness_);
  if (hot.tokens == 0 || hot.tokens < warm.tokens) {
    rows_.push_back(DoesNotApply(NewRow(kGroup, "hot", "append", PromiseOf(exactness_)),
                                 hot.reason.empty() ? "host pages reach further" : hot.reason));
  } else {
    Try("hot", engine::HitKind::kHot, "append", probe_, *cold, hot.tokens);
  }
  session_.engine().ForgetIdleLanes();
  Try("host pages", engine::HitKind::kWarm, "append", probe_, *cold, warm.tokens);
  session_.engine().ForgetIdleLanes();
  Ask again = first_;
  again.allow_decoded_result = true;
  Try("decoded result", engine::HitKind::kDecodedResult, "exact repeat", again, told[0].answer,
      static_cast<Pos>(again.prompt.size()));
  return {};
}

}  // namespace

Result<Certificate> QuickSelfTest(runtime::Runtime& runtime, const TextSource& text,
                                  const QuickSettings& settings) {
  const runtime::RuntimeInfo& info = runtime.info();
  Certificate certificate = BeginCertificate(info, Mode::kQuick, settings.seed);
  if (info.policy == PayloadPolicy::kOff)
    return Concluded(std::move(certificate), settings.exactness);
  SKIPPY_TRY(const Sizes sizes, QuickSizes(info, settings));
  BorrowedSubject subject(text);
  Arena arena(subject, runtime, sizes, {settings.seed, settings.generated, settings.page_tokens});
  const std::size_t total = settings.exactness.size() + 1;
  std::size_t done = 0;
  const auto say = [&](std::string_view next) {
    if (settings.progress) settings.progress(done, total, next);
  };
  for (const Exactness exactness : settings.exactness) {
    say(fmt::format("cold against kept ({})", PromiseName(PromiseOf(exactness))));
    const Status status = QuickSession(arena, exactness, certificate.rows).Run();
    if (!status) {
      certificate.rows.push_back(
          Failed(NewRow(kGroup, "", "cold run", PromiseOf(exactness)), status.error().message));
    }
    ++done;
  }
  say("state round trips");
  for (Row& row : GridRoundTripRows(arena)) certificate.rows.push_back(std::move(row));
  ClearLanes(runtime);
  return Concluded(std::move(certificate), settings.exactness);
}

}  // namespace skippy::certify
