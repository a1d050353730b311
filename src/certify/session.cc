#include "certify/session.h"

#include "certify/port_run.h"
#include "skippy/random.h"

namespace skippy::certify {
namespace {

CacheOptions CacheOptionsFor(const runtime::Runtime& runtime, std::uint32_t page_tokens,
                             std::uint64_t max_bytes) {
  CacheOptions options;
  options.shape = runtime.info().shape;
  options.policy = runtime.info().policy;
  options.page_tokens = page_tokens;
  options.max_bytes = max_bytes;
  options.max_logits_bytes = max_bytes;
  return options;
}

runtime::Runtime& Cleared(runtime::Runtime& runtime) {
  ClearLanes(runtime);
  return runtime;
}

}  // namespace

std::uint64_t CacheBytes(const runtime::RuntimeInfo& info, Pos tokens, double prompts) {
  const MemoryShape& shape = info.shape;
  const std::uint64_t rows = std::uint64_t{tokens} * (shape.kv_row_bytes + shape.window_row_bytes);
  const std::uint64_t snapshots = (tokens / info.chunk + 3) * shape.snapshot_bytes;
  const double bytes = prompts * static_cast<double>(rows + snapshots + shape.logits_bytes);
  return static_cast<std::uint64_t>(bytes);
}

Session::Session(Arena& arena, runtime::Runtime& runtime, const SessionOptions& options)
    : arena_(arena),
      runtime_(runtime),
      keeps_lanes_(options.engine.cache),
      salt_(std::to_string(RandomBits())),
      cache_(CacheOptionsFor(runtime, arena.options().page_tokens, options.max_bytes),
             arena.clock()),
      engine_(options.engine, Cleared(runtime), cache_, arena.clock()) {}

Result<std::shared_ptr<CaptureSink>> Session::Submit(const Ask& ask) {
  auto sink = std::make_shared<CaptureSink>(ask.abort_after);
  if (!keeps_lanes_) {
    // The lane is emptied when the request ends; until then it is the only one in use.
    sink->at_token = [this, most = ask.max_tokens](Answer& answer) {
      if (answer.tokens.size() < most) return;
      for (std::uint32_t lane = 0; lane < runtime_.info().lanes && !answer.state; ++lane)
        answer.state = StateDigest(runtime_, SeqId{lane}).value_or(std::nullopt);
    };
  }
  engine::GenerateRequest request;
  request.prompt = ask.prompt;
  request.tenant_salt = salt_;
  request.message_starts = ask.message_starts;
  request.allow_decoded_result = ask.allow_decoded_result;
  request.max_tokens = ask.max_tokens;
  SKIPPY_TRY(request.sampler, arena_.MakeSampler(ask.seed));
  request.sink = sink;
  SKIPPY_TRY([[maybe_unused]] const RequestId id, engine_.Submit(std::move(request)));
  return sink;
}

Result<Answer> Session::Run(const Ask& ask) {
  SKIPPY_TRY(const std::shared_ptr<CaptureSink> sink, Submit(ask));
  while (!sink->finished && engine_.Step()) {
  }
  return Take(*sink);
}

Result<Answer> Session::Take(CaptureSink& sink) {
  if (!sink.finished) return Err(ErrorCode::kInternal, "the engine came to rest too early");
  if (sink.answer.report.error) return tl::unexpected<Error>(*sink.answer.report.error);
  if (keeps_lanes_ && !sink.answer.tokens.empty()) {
    SKIPPY_TRY(sink.answer.state, StateDigest(runtime_, sink.answer.report.lane));
  }
  return std::move(sink.answer);
}

}  // namespace skippy::certify
