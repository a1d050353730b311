// What is added to llama.cpp's response bodies: where the prompt came from, and rates that are null
// rather than invented. Pure functions of JSON.
#pragma once

#include <string>
#include <vector>

#include "api/request_fields.h"
#include "engine/request.h"

namespace skippy::api {

// The `skippy` object of a final response or chunk.
Json CacheReport(const engine::PromptReport& report);

// A prompt answered wholly from the cache took no evaluation: its times are 0 and its rates null.
void FixTimings(Json& response);

// Adds the report to a response body, or to the last suitable event of a streamed one.
void AddCacheReport(Json& response, const engine::PromptReport& report);

// Empties the alternatives in log probabilities, keeping the sampled token's own.
void DropTopLogprobs(Json& response);

struct Usage {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t completion_tokens = 0;
  std::uint64_t cached_tokens = 0;
};
// OpenAI's usage object over all completions of a request.
Json UsageObject(const Usage& usage);

// One OpenAI response out of several, in order of their choices.
Json MergeChoices(std::vector<Json> responses, const Usage& usage);

// In the last events of one of several streamed choices: the usage chunk is left out (`last` false)
// or replaced by the sum, with timings and cache report of `told`: the usage chunk of the choice
// that the sum's cached tokens are those of (see UsageChunk; null: that of the last one).
Json WithSharedUsage(const Json& events, const Usage& usage, bool last, const Json& told);
// The usage chunk among a choice's last events; null: none.
Json UsageChunk(const Json& events);

}  // namespace skippy::api
