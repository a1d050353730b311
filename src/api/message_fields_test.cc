#include "api/message_fields.h"

#include <gtest/gtest.h>

#include <string>

namespace skippy::api {
namespace {

// The error message of a body, or "" when it passes.
std::string MessagesComplaint(const std::string& text) {
  const auto body = ParseBody(text);
  if (!body) return body.error().message;
  const ApiStatus status = CheckMessages(*body);
  return status ? "" : status.error().message;
}

TEST(CheckMessages, KnownRolesPassAndUnknownOnesAreNamed) {
  EXPECT_EQ(MessagesComplaint(R"({"messages":[{"role":"system","content":"a"},
      {"role":"user","content":[{"type":"text","text":"b"}]},{"role":"assistant","content":null,
      "tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},
      {"role":"tool","tool_call_id":"1","content":"c"}]})"),
            "");
  EXPECT_NE(MessagesComplaint(R"({"messages":[{"role":"alien","content":"x"}]})").find("'alien'"),
            std::string::npos);
}

TEST(CheckMessages, ShapesThatTemplatesCannotTakeAreRefused) {
  for (const char* messages :
       {"\"hi\"", "[]", "[\"hi\"]", R"([{"content":"x"}])", R"([{"role":1,"content":"x"}])",
        R"([{"role":"user","content":5}])", R"([{"role":"user","content":null}])",
        R"([{"role":"user","content":[5]}])", R"([{"role":"user","content":[{"type":"text"}]}])",
        R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}])",
        R"([{"role":"assistant","tool_calls":[{"function":{}}]}])"}) {
    EXPECT_NE(MessagesComplaint(std::string("{\"messages\":") + messages + "}"), "") << messages;
  }
}

TEST(CheckMessages, DeepToolCallArgumentsAreRefused) {
  const std::string arguments(200, '[');
  EXPECT_NE(
      MessagesComplaint(R"({"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f",
      "arguments":")" + arguments +
                        "\"}}]}]}")
          .find("nested deeper"),
      std::string::npos);
}

TEST(CheckTools, FunctionsNeedNamesOfTheirOwn) {
  const auto complaint = [](const char* tools) {
    const ApiStatus status = CheckTools(*ParseBody(std::string("{\"tools\":") + tools + "}"));
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(complaint(R"([{"type":"function","function":{"name":"f","parameters":{}}}])"), "");
  EXPECT_NE(complaint(R"([{"type":"function","function":{}}])"), "");
  EXPECT_NE(complaint(R"([{"type":"retrieval"}])"), "");
  EXPECT_NE(
      complaint(
          R"([{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}])"),
      "");
}

}  // namespace
}  // namespace skippy::api
