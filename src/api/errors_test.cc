#include "api/errors.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "json.h"

namespace skippy::api {
namespace {

TEST(ErrorBody, HasTheFormOfEachApi) {
  const ApiError error{.status = 400, .type = "invalid_request_error", .message = "no"};
  const common_json openai = common_json::parse(ErrorBody(error, Dialect::kOpenAi));
  EXPECT_EQ(openai.at("error").at("message").get<std::string>(), "no");
  EXPECT_EQ(openai.at("error").at("type").get<std::string>(), "invalid_request_error");
  EXPECT_EQ(openai.at("error").at("code").get<int>(), 400);
  const common_json anthropic = common_json::parse(ErrorBody(error, Dialect::kAnthropic));
  EXPECT_EQ(anthropic.at("type").get<std::string>(), "error");
  EXPECT_EQ(anthropic.at("error").at("type").get<std::string>(), "invalid_request_error");
}

TEST(ErrorBody, PromptsOverTheContextTellBothNumbers) {
  const common_json body =
      common_json::parse(ErrorBody(ContextExceeded(900, 512), Dialect::kOpenAi));
  EXPECT_EQ(body.at("error").at("type").get<std::string>(), "exceed_context_size_error");
  EXPECT_EQ(body.at("error").at("n_prompt_tokens").get<int>(), 900);
  EXPECT_EQ(body.at("error").at("n_ctx").get<int>(), 512);
}

TEST(ErrorBody, InvalidUtf8InMessagesStaysJson) {
  const ApiError error{.status = 400, .type = "t", .message = "bad \xFF byte"};
  EXPECT_NO_THROW(common_json::parse(ErrorBody(error, Dialect::kOpenAi)));
}

TEST(FromError, FullQueueIs429AndBadInput400) {
  EXPECT_EQ(FromError({ErrorCode::kResourceExhausted, ""}).status, 429);
  EXPECT_EQ(FromError({ErrorCode::kUnavailable, ""}).status, 503);
  EXPECT_EQ(FromError({ErrorCode::kInvalidArgument, ""}).status, 400);
  EXPECT_EQ(FromError({ErrorCode::kUnsupported, ""}).status, 501);
  EXPECT_EQ(FromError({ErrorCode::kInternal, ""}).status, 500);
}

TEST(Guarded, ExceptionsOfParsersAreBadRequests) {
  const ApiStatus thrown = Guarded([]() -> ApiStatus {
    throw std::runtime_error("[json.exception.parse_error.101] parse error at line 1");
  });
  ASSERT_FALSE(thrown);
  EXPECT_EQ(thrown.error().status, 400);
  EXPECT_EQ(thrown.error().message, "parse error at line 1");
  const ApiStatus memory = Guarded([]() -> ApiStatus { throw std::bad_alloc(); });
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().status, 500);
}

}  // namespace
}  // namespace skippy::api
