#include "api/response_json.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace skippy::api {
namespace {

engine::PromptReport Report() {
  engine::PromptReport report;
  report.prompt_tokens = 100;
  report.cached_tokens = 60;
  report.evaluated_tokens = 40;
  report.cached_hot = 10;
  report.cached_warm = 50;
  report.hit_kind = engine::HitKind::kWarm;
  report.miss_reason = MissReason::kDiverged;
  report.first_different = 61;
  return report;
}

TEST(CacheReport, TellsTiersAndReason) {
  const Json report = CacheReport(Report());
  EXPECT_EQ(report.at("hit_kind").get<std::string>(), engine::HitKindName(engine::HitKind::kWarm));
  EXPECT_EQ(report.at("cached_tokens_details").at("device").get<int>(), 10);
  EXPECT_EQ(report.at("cached_tokens_details").at("host").get<int>(), 50);
  EXPECT_EQ(report.at("miss_reason").get<std::string>(), MissReasonName(MissReason::kDiverged));
  EXPECT_EQ(report.at("first_different").get<int>(), 61);
}

TEST(FixTimings, RatesOfNothingAreNull) {
  Json response = Json::parse(R"({"timings":{"prompt_n":0,"prompt_ms":0.3,"prompt_per_token_ms":0.0,
      "prompt_per_second":0.0,"predicted_ms":5.0}})");
  FixTimings(response);
  EXPECT_EQ(response.at("timings").at("prompt_ms").get<double>(), 0);
  EXPECT_TRUE(response.at("timings").at("prompt_per_token_ms").is_null());
  EXPECT_TRUE(response.at("timings").at("prompt_per_second").is_null());
  EXPECT_EQ(response.at("timings").at("predicted_ms").get<double>(), 5);
}

TEST(FixTimings, EvaluatedPromptsKeepTheirTimes) {
  Json response = Json::parse(R"([{"x":1},{"timings":{"prompt_n":3,"prompt_ms":2.0}}])");
  FixTimings(response);
  EXPECT_EQ(response.at(std::size_t{1}).at("timings").at("prompt_ms").get<double>(), 2);
}

TEST(AddCacheReport, GoesIntoTheLastChunkOfAStream) {
  Json chunks = Json::parse(R"([{"choices":[]},{"choices":[],"usage":{}}])");
  AddCacheReport(chunks, Report());
  EXPECT_FALSE(chunks.at(std::size_t{0}).contains("skippy"));
  EXPECT_TRUE(chunks.at(std::size_t{1}).contains("skippy"));
}

TEST(AddCacheReport, CompletesAnthropicUsageInTheStream) {
  Json events = Json::parse(R"([{"event":"message_delta","data":{"delta":{"stop_reason":"end_turn",
      "stop_sequence":"X"},"usage":{"output_tokens":3}}},{"event":"message_stop","data":{}}])");
  AddCacheReport(events, Report());
  const Json& data = events.at(std::size_t{0}).at("data");
  EXPECT_EQ(data.at("usage").at("cache_read_input_tokens").get<int>(), 60);
  EXPECT_EQ(data.at("usage").at("input_tokens").get<int>(), 40);
  EXPECT_EQ(data.at("delta").at("stop_reason").get<std::string>(), "stop_sequence");
  EXPECT_TRUE(data.contains("skippy"));
}

TEST(MergeChoices, JoinsChoicesAndSumsUsage) {
  std::vector<Json> responses{Json::parse(R"({"id":"a","choices":[{"index":0}],"usage":{}})"),
                              Json::parse(R"({"id":"a","choices":[{"index":1}],"usage":{}})")};
  const Json merged = MergeChoices(
      std::move(responses), {.prompt_tokens = 7, .completion_tokens = 9, .cached_tokens = 5});
  EXPECT_EQ(merged.at("choices").size(), 2U);
  EXPECT_EQ(merged.at("usage").at("total_tokens").get<int>(), 16);
  EXPECT_EQ(merged.at("usage").at("prompt_tokens_details").at("cached_tokens").get<int>(), 5);
}

TEST(WithSharedUsage, OnlyTheLastChoiceCarriesTheUsageChunk) {
  const Json events =
      Json::parse(R"([{"choices":[{"index":0}]},{"choices":[],"usage":{"prompt_tokens":1}}])");
  EXPECT_EQ(WithSharedUsage(events, {}, false, {}).size(), 1U);
  const Json last = WithSharedUsage(events, {.prompt_tokens = 4, .completion_tokens = 2}, true, {});
  ASSERT_EQ(last.size(), 2U);
  EXPECT_EQ(last.at(std::size_t{1}).at("usage").at("total_tokens").get<int>(), 6);
}

// Usage, timings and cache report must speak of the same choice.
TEST(WithSharedUsage, TimingsAndReportAreThoseOfTheFirstChoice) {
  const Json first = Json::parse(
      R"([{"choices":[{"index":0}]},{"choices":[],"usage":{},"timings":{"cache_n":0},"skippy":{"hit_kind":"none"}}])");
  const Json second = Json::parse(
      R"([{"choices":[{"index":1}]},{"choices":[],"usage":{},"timings":{"cache_n":9},"skippy":{"hit_kind":"hot"}}])");
  const Json last = WithSharedUsage(second, {}, true, UsageChunk(first));
  EXPECT_EQ(last.at(std::size_t{1}).at("timings").at("cache_n").get<int>(), 0);
  EXPECT_EQ(last.at(std::size_t{1}).at("skippy").at("hit_kind").get<std::string>(), "none");
  EXPECT_TRUE(UsageChunk(Json::parse(R"([{"choices":[{"index":0}]}])")).is_null());
}

TEST(DropTopLogprobs, KeepsTheSampledTokensOwn) {
  Json response = Json::parse(
      R"({"choices":[{"logprobs":{"content":[{"logprob":-1,"top_logprobs":[{"logprob":-1}]}]}}]})");
  DropTopLogprobs(response);
  const Json& entry =
      response.at("choices").at(std::size_t{0}).at("logprobs").at("content").at(std::size_t{0});
  EXPECT_EQ(entry.at("logprob").get<double>(), -1);
  EXPECT_TRUE(entry.at("top_logprobs").empty());
}

}  // namespace
}  // namespace skippy::api
