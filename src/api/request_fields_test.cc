#include "api/request_fields.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace skippy::api {
namespace {

constexpr FieldLimits kLimits{.max_choices = 8, .context = 512, .vocab = 1000};

// The error message of a body, or "" when it passes.
std::string Complaint(const std::string& text) {
  const auto body = ParseBody(text);
  if (!body) return body.error().message;
  const ApiStatus status = CheckFields(*body, kLimits);
  return status ? "" : status.error().message;
}

Json Normalized(const std::string& text) {
  Json body = *ParseBody(text);
  NormalizeNumbers(body, kLimits);
  return body;
}

TEST(ParseBody, OnlyObjectsPass) {
  EXPECT_TRUE(ParseBody("{}"));
  for (const char* text : {"", "  ", "[]", "3", "null", "\"x\"", "{", "{\"a\":\"\xFF\"}"}) {
    const auto body = ParseBody(text);
    ASSERT_FALSE(body) << text;
    EXPECT_EQ(body.error().status, 400) << text;
    EXPECT_EQ(body.error().message.find("json.exception"), std::string::npos) << text;
  }
}

TEST(CheckFields, UsualRequestsPass) {
  EXPECT_EQ(
      Complaint(R"({"model":"m","temperature":0,"max_tokens":1,"stop":["a"],"stream":true,"n":8,
      "logit_bias":{"5":-100,"word":1},"seed":-1,"unknown_field":[1],"top_k":-1,"max_tokens":10.0})"),
      "");
  EXPECT_EQ(Complaint(R"({"temperature":null,"stop":null,"tools":null})"), "");
}

TEST(CheckFields, WrongTypesAndRangesNameTheField) {
  const std::vector<std::pair<const char*, const char*>> cases{
      {R"({"temperature":"hot"})", "'temperature' must be a number"},
      {R"({"temperature":-1})", "'temperature' must be between"},
      {R"({"temperature":1e300})", "'temperature' must be between"},
      {R"({"max_tokens":"5"})", "'max_tokens' must be an integer"},
      {R"({"max_tokens":1.5})", "'max_tokens' must be an integer"},
      {R"({"max_tokens":4294967297})", "'max_tokens' must be between"},
      {R"({"n":0})", "'n' must be between 1 and 8"},
      {R"({"n_cmpl":9})", "'n_cmpl' must be between 1 and 8"},
      {R"({"stream":"yes"})", "'stream' must be a boolean"},
      {R"({"stop":5})", "'stop' must be a string or an array"},
      {R"({"stop":["a",5]})", "the elements of 'stop' must be strings"},
      {R"({"logit_bias":[[1]]})", "'logit_bias' must be"},
      {R"({"logit_bias":{"1000":1}})", "'logit_bias' names token 1000"},
      {R"({"logit_bias":[[1,1e39]]})", "must be finite"},
      {R"({"lora":[{"id":"a","scale":1}]})", "'lora' must be"},
      {R"({"response_format":{"type":"xml"}})", "'response_format.type'"},
      {R"({"response_format":{"type":"json_schema"}})", "needs 'json_schema.schema'"},
      {R"({"stream_options":{"include_usage":1}})", "'include_usage' must be a boolean"},
      {R"({"grammar_triggers":[{"type":2,"value":"x"}]})", "'grammar_triggers' takes"},
      {R"({"cache_salt":5})", "'cache_salt' must be a string"},
  };
  for (const auto& [text, part] : cases) {
    EXPECT_NE(Complaint(text).find(part), std::string::npos) << text << " -> " << Complaint(text);
  }
}

TEST(CheckFields, DeeplyGroupedGrammarsAreRefused) {
  const std::string groups(1000, '(');
  EXPECT_NE(Complaint("{\"grammar\":\"root ::= " + groups + "\"}").find("nests groups"),
            std::string::npos);
}

TEST(CheckSchema, ObjectsWithVeryManyPropertiesAreRefused) {
  std::string properties;
  for (int i = 0; i < 300; ++i) {
    properties += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) + "\":{\"type\":\"string\"}";
  }
  EXPECT_NE(
      Complaint("{\"json_schema\":{\"properties\":{" + properties + "}}}").find("more than 256"),
      std::string::npos);
}

TEST(CheckSchema, PatternsMustBeClosed) {
  const auto complaint = [](const std::string& pattern) {
    return Complaint("{\"json_schema\":{\"type\":\"string\",\"pattern\":\"" + pattern + "\"}}");
  };
  for (const char* good : {"^a+$", "^[(]$", "^(a|[)])$", "^\\\\($", ""})
    EXPECT_EQ(complaint(good), "") << good;
  for (const char* bad : {"^([a-z", "^(a$", "^a)$", "a\\\\"}) {
    EXPECT_NE(complaint(bad).find("not a regular expression"), std::string::npos) << bad;
  }
}

TEST(NormalizeNumbers, SeedsFitIntoThirtyTwoBits) {
  EXPECT_EQ(Normalized(R"({"seed":42})").at("seed").get<double>(), 42);
  EXPECT_EQ(Normalized(R"({"seed":-1})").at("seed").get<double>(), 4294967295.0);
  const double a = Normalized(R"({"seed":9223372036854775807})").at("seed").get<double>();
  const double b = Normalized(R"({"seed":9223372036854775806})").at("seed").get<double>();
  EXPECT_NE(a, b);
  EXPECT_LT(a, 4294967295.0);
}

TEST(NormalizeNumbers, WindowsOfThePastEndAtTheContext) {
  EXPECT_EQ(Normalized(R"({"repeat_last_n":2147483647})").at("repeat_last_n").get<double>(), 512);
  EXPECT_EQ(Normalized(R"({"repeat_last_n":-1})").at("repeat_last_n").get<double>(), 512);
  EXPECT_EQ(Normalized(R"({"dry_penalty_last_n":7})").at("dry_penalty_last_n").get<double>(), 7);
}

TEST(Refusals, InternalAndInexactFieldsAreRefused) {
  EXPECT_FALSE(RefuseInternalFields(*ParseBody(R"({"chat_parser":"{}"})")));
  EXPECT_TRUE(RefuseInternalFields(*ParseBody(R"({"chat_parser":null})")));
  EXPECT_FALSE(RefuseInexact(*ParseBody(R"({"n_cache_reuse":256})")));
  EXPECT_TRUE(RefuseInexact(*ParseBody(R"({"n_cache_reuse":0})")));
  EXPECT_FALSE(RefuseInexact(*ParseBody(R"({"context_shift":true})")));
}

}  // namespace
}  // namespace skippy::api
