#include "api/request_log.h"

#include <fmt/format.h>

#include <utility>

#include "json.h"

namespace skippy::api {
namespace {

const char* FinishName(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop: return "stop";
    case engine::FinishReason::kLength: return "length";
    case engine::FinishReason::kCancelled: return "cancelled";
    case engine::FinishReason::kError: return "error";
  }
  return "unknown";
}

// Three decimals are microseconds; more is noise.
double Rounded(double milliseconds) {
  return static_cast<double>(static_cast<std::int64_t>(milliseconds * 1000)) / 1000;
}

}  // namespace

std::string RequestLine(const RequestFacts& facts, const engine::GenerationReport& report) {
  const engine::PromptReport& prompt = report.prompt;
  common_json line{
      {"event", "request"},
      {"id", facts.id},
      {"endpoint", facts.endpoint},
      {"choice", facts.choice},
      {"stream", facts.stream},
      {"finish", FinishName(report.finish)},
      {"prompt_tokens", prompt.prompt_tokens},
      {"cached_tokens", prompt.cached_tokens},
      {"evaluated_tokens", prompt.evaluated_tokens},
      {"generated_tokens", report.generated_tokens},
      {"hit_kind", engine::HitKindName(prompt.hit_kind)},
      {"miss_reason", MissReasonName(prompt.miss_reason)},
      {"first_different", prompt.first_different},
      {"lane", report.lane.value},
      {"queue_ms", Rounded(prompt.queue_ms)},
      {"lookup_ms", Rounded(prompt.lookup_ms)},
      {"restore_ms", Rounded(prompt.restore_ms)},
      {"record_ms", Rounded(prompt.record_ms)},
      {"prompt_ms", Rounded(prompt.prompt_ms)},
      {"decode_ms", Rounded(report.decode_ms)},
  };
  if (!facts.tenant.empty()) line["tenant"] = facts.tenant;
  if (report.error) line["error"] = ErrorCodeName(report.error->code);
  return line.dump_safe();
}

std::string RejectedLine(const std::string& endpoint, const ApiError& error) {
  return common_json{
      {"event", "rejected"}, {"endpoint", endpoint}, {"status", error.status}, {"type", error.type}}
      .dump_safe();
}

RequestLog::RequestLog(std::FILE* out) : out_(out), thread_([this] { Run(); }) {}

RequestLog::~RequestLog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void RequestLog::Append(std::string line) {
  {
    const std::lock_guard lock(mutex_);
    if (pending_.size() >= kMaxPending) {
      ++dropped_;
      return;
    }
    pending_.push_back(std::move(line));
  }
  wake_.notify_one();
}

void RequestLog::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || !pending_.empty(); });
    if (pending_.empty()) return;
    std::deque<std::string> batch = std::exchange(pending_, {});
    const std::uint64_t dropped = std::exchange(dropped_, 0);
    lock.unlock();
    for (const std::string& line : batch) std::fprintf(out_, "%s\n", line.c_str());
    if (dropped > 0)
      std::fprintf(out_, "{\"event\":\"log_lines_dropped\",\"count\":%llu}\n",
                   static_cast<unsigned long long>(dropped));
    std::fflush(out_);
    lock.lock();
  }
}

}  // namespace skippy::api
