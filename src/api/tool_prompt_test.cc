#include "api/tool_prompt.h"

#include <gtest/gtest.h>

#include <string>

#include "chat.h"

namespace skippy::api {
namespace {

constexpr const char* kPrefix = "<|im_start|>assistant\n";

Json Tools() {
  return Json::parse(
      R"([{"type":"function","function":{"name":"get_weather","description":"Weather",
    "parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}},
    {"type":"function","function":{"name":"quo\"te"}}])");
}

common_chat_msg Parse(const std::string& answer, bool required) {
  const ToolGrammar built = BuildToolGrammar(Tools(), kPrefix, required);
  common_chat_parser_params params;
  params.format = COMMON_CHAT_FORMAT_PEG_NATIVE;
  params.generation_prompt = kPrefix;
  params.parser.load(built.parser);
  return common_chat_parse(answer, false, params);
}

std::string Contents(const Json& messages) {
  std::string all;
  for (const Json& message : messages) {
    all += StringOr(message, "role") + ":" + StringOr(message, "content") + "|";
  }
  return all;
}

TEST(DescribeTools, ToolsGoIntoTheSystemMessage) {
  Json messages =
      Json::parse(R"([{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}])");
  DescribeTools(messages, Tools());
  ASSERT_EQ(messages.size(), 2U);
  const std::string system = StringOr(messages.at(std::size_t{0}), "content");
  EXPECT_EQ(system.find("Be brief."), 0U);
  EXPECT_NE(system.find("get_weather"), std::string::npos);
}

TEST(DescribeTools, SystemMessageIsAddedWhereThereIsNone) {
  Json messages = Json::parse(R"([{"role":"user","content":"hi"}])");
  DescribeTools(messages, Tools());
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(StringOr(messages.at(std::size_t{0}), "role"), "system");
}

TEST(DescribeTools, EarlierCallsAndResultsBecomeText) {
  Json messages = Json::parse(R"([{"role":"user","content":"weather?"},
    {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",
      "function":{"name":"get_weather","arguments":"{\"city\": \"Paris\"}"}}]},
    {"role":"tool","tool_call_id":"1","content":"sunny"}])");
  DescribeTools(messages, Tools());
  const std::string all = Contents(messages);
  EXPECT_NE(all.find("assistant:<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
                     "\"Paris\"}}\n"
                     "</tool_call>|"),
            std::string::npos);
  EXPECT_NE(all.find("user:<tool_response>\nsunny\n</tool_response>|"), std::string::npos);
}

TEST(DescribeTools, DependsOnTheRequestOnly) {
  Json a = Json::parse(R"([{"role":"user","content":"hi"}])");
  Json b = a;
  DescribeTools(a, Tools());
  DescribeTools(b, Tools());
  EXPECT_EQ(a.dump(), b.dump());
}

TEST(ToolGrammar, CallIsParsedWithItsArgumentsVerbatim) {
  const common_chat_msg message = Parse(
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": { \"city\":  \"Paris\" "
      "}}\n</tool_call>",
      true);
  ASSERT_EQ(message.tool_calls.size(), 1U);
  EXPECT_EQ(message.tool_calls[0].name, "get_weather");
  EXPECT_EQ(message.tool_calls[0].arguments, "{ \"city\":  \"Paris\" }");
  EXPECT_EQ(message.content, "");
}

// What the model wrote under the grammar comes back as the same bytes in the next turn's prompt.
TEST(ToolGrammar, CallRoundTripsThroughTheNextTurn) {
  const std::string answer =
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\n  \"city\": "
      "\"Paris\"\n}}\n</tool_call>";
  const common_chat_msg message = Parse(answer, true);
  Json messages = Json::array();
  messages.push_back(Json{{"role", "system"}, {"content", "s"}});
  messages.push_back(message.to_json_oaicompat());
  DescribeTools(messages, Tools());
  EXPECT_EQ(StringOr(messages.at(std::size_t{1}), "content"), answer);
}

TEST(ToolGrammar, OptionalCallsLeavePlainTextAlone) {
  const common_chat_msg message = Parse("It is sunny.", false);
  EXPECT_TRUE(message.tool_calls.empty());
  EXPECT_EQ(message.content, "It is sunny.");
}

TEST(ToolGrammar, GrammarNamesEveryFunction) {
  const ToolGrammar built = BuildToolGrammar(Tools(), kPrefix, true);
  EXPECT_NE(built.grammar.find("get_weather"), std::string::npos);
  EXPECT_NE(built.grammar.find("root ::="), std::string::npos);
  EXPECT_EQ(built.trigger, "<tool_call>");
}

}  // namespace
}  // namespace skippy::api
