#include "api/response_json.h"

#include <utility>

#include "skippy/prefix_cache.h"

namespace skippy::api {
namespace {

double Rounded(double milliseconds) {
  return static_cast<double>(static_cast<std::int64_t>(milliseconds * 1000)) / 1000;
}

template <class F>
void ForEachBody(Json& response, F&& f) {
  if (response.is_array()) {
    for (Json& element : response) f(element);
  } else if (response.is_object()) {
    f(response);
  }
}

void FixOneTimings(Json& timings) {
  if (!timings.is_object() || !Has(timings, "prompt_n")) return;
  if (timings.at("prompt_n").get<double>() != 0) return;
  timings["prompt_ms"] = 0.0;
  timings["prompt_per_token_ms"] = nullptr;
  timings["prompt_per_second"] = nullptr;
}

// Anthropic's API calls it stop_sequence when one of the client's own ended the answer.
void NameStopSequence(Json& message) {
  if (StringOr(message, "stop_reason") == "end_turn" && Has(message, "stop_sequence")) {
    message["stop_reason"] = "stop_sequence";
  }
}

void EmptyAlternatives(Json& holder) {
  if (!Has(holder, "logprobs") || !Has(holder.at("logprobs"), "content")) return;
  for (Json& entry : holder.at("logprobs").at("content")) {
    if (entry.is_object() && entry.contains("top_logprobs")) entry["top_logprobs"] = Json::array();
  }
}

bool IsUsageChunk(const Json& event) {
  return Has(event, "usage") && Has(event, "choices") && event.at("choices").empty();
}

}  // namespace

Json CacheReport(const engine::PromptReport& report) {
  Json object{
      {"hit_kind", engine::HitKindName(report.hit_kind)},
      {"cached_tokens_details", {{"device", report.cached_hot}, {"host", report.cached_warm}}},
      {"evaluated_tokens", report.evaluated_tokens},
      {"miss_reason", MissReasonName(report.miss_reason)},
      {"first_different", report.first_different},
      {"queue_ms", Rounded(report.queue_ms)},
      {"lookup_ms", Rounded(report.lookup_ms)},
      {"restore_ms", Rounded(report.restore_ms)},
      {"record_ms", Rounded(report.record_ms)},
  };
  return object;
}

void FixTimings(Json& response) {
  ForEachBody(response, [](Json& body) {
    if (Has(body, "timings")) FixOneTimings(body["timings"]);
    // Events of the Responses API carry their payload one level down.
    if (Has(body, "data") && Has(body.at("data"), "timings"))
      FixOneTimings(body["data"]["timings"]);
  });
}

void AddCacheReport(Json& response, const engine::PromptReport& report) {
  if (response.is_object()) {
    NameStopSequence(response);
    response["skippy"] = CacheReport(report);
    return;
  }
  if (!response.is_array() || response.empty()) return;
  // Anthropic's usage travels in message_delta, the last event but one.
  for (Json& event : response) {
    if (StringOr(event, "event") != "message_delta" || !Has(event, "data")) continue;
    event["data"]["usage"]["cache_read_input_tokens"] = report.cached_tokens;
    event["data"]["usage"]["input_tokens"] = report.prompt_tokens - report.cached_tokens;
    event["data"]["skippy"] = CacheReport(report);
    NameStopSequence(event["data"]["delta"]);
    return;
  }
  Json& last = response.back();
  if (Has(last, "data")) {
    last["data"]["skippy"] = CacheReport(report);
  } else {
    last["skippy"] = CacheReport(report);
  }
}

void DropTopLogprobs(Json& response) {
  ForEachBody(response, [](Json& body) {
    if (!Has(body, "choices")) return;
    for (Json& choice : body["choices"]) EmptyAlternatives(choice);
  });
}

Json UsageObject(const Usage& usage) {
  return Json{
      {"completion_tokens", usage.completion_tokens},
      {"prompt_tokens", usage.prompt_tokens},
      {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
      {"prompt_tokens_details", Json{{"cached_tokens", usage.cached_tokens}}},
  };
}

Json MergeChoices(std::vector<Json> responses, const Usage& usage) {
  Json merged = std::move(responses.front());
  for (std::size_t i = 1; i < responses.size(); ++i) {
    merged["choices"].push_back(responses[i].at("choices").at(std::size_t{0}));
  }
  merged["usage"] = UsageObject(usage);
  return merged;
}

Json UsageChunk(const Json& events) {
  if (!events.is_array()) return {};
  for (const Json& event : events)
    if (IsUsageChunk(event)) return event;
  return {};
}

Json WithSharedUsage(const Json& events, const Usage& usage, bool last, const Json& told) {
  if (!events.is_array()) return events;
  Json kept = Json::array();
  for (const Json& event : events) {
    const bool is_usage = IsUsageChunk(event);
    if (is_usage && !last) continue;
    Json copy = event;
    if (is_usage) {
      copy["usage"] = UsageObject(usage);
      for (const char* key : {"timings", "skippy"})
        if (Has(told, key)) copy[key] = told.at(key);
    }
    kept.push_back(std::move(copy));
  }
  return kept;
}

}  // namespace skippy::api
