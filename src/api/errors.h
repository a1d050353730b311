// Errors as clients see them: an HTTP status and a JSON body in the form of the API that was
// called.
//
// Values only; no exception crosses a handler (docs/decisions/0001). Immutable.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "skippy/result.h"

namespace skippy::api {

// Which API the client speaks; decides the form of error bodies.
enum class Dialect : std::uint8_t { kOpenAi, kAnthropic };

struct ApiError {
  int status = 500;
  std::string type;     // OpenAI's word for it, e.g. "invalid_request_error"
  std::string message;  // written for the person who reads it
  // Both set exactly for prompts over the context.
  std::uint32_t prompt_tokens = 0;
  std::uint32_t context = 0;
};

template <class T>
class [[nodiscard]] ApiResult : public tl::expected<T, ApiError> {
 public:
  using tl::expected<T, ApiError>::expected;
};
using ApiStatus = ApiResult<void>;

tl::unexpected<ApiError> BadRequest(std::string message);
tl::unexpected<ApiError> NotSupported(std::string message);  // 501
tl::unexpected<ApiError> TooLarge(std::string message);      // 413
// `at_least`: the prompt was not tokenized to its end, since so many tokens are too many already.
ApiError ContextExceeded(std::uint32_t prompt_tokens, std::uint32_t context, bool at_least = false);
// 503: passing conditions that waiting in the queue does not cure (stopping, loading).
ApiError Unavailable(std::string message);
// The engine's and the adapter's errors: kResourceExhausted is a full queue (429).
ApiError FromError(const Error& error);
// What an HTTP status without a body of its own means (404, 405, 413, ...).
ApiError FromStatus(int status);

std::string ErrorBody(const ApiError& error, Dialect dialect);
// The same as a server-sent event, for errors after the stream began.
std::string ErrorEvent(const ApiError& error, Dialect dialect);

// Runs `f`, which may call throwing code of llama.cpp, and turns an exception into a 400: what
// throws there is the parsing of the client's input. Out of memory is a 500.
template <class F>
auto Guarded(F&& f) -> decltype(f());
tl::unexpected<ApiError> FromException();

template <class F>
auto Guarded(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (...) {
    return FromException();
  }
}

#define API_TRY(declaration, expression)                       \
  auto SKIPPY_CONCAT(api_try_, __LINE__) = (expression);       \
  if (!SKIPPY_CONCAT(api_try_, __LINE__))                      \
    return tl::unexpected<::skippy::api::ApiError>(            \
        std::move(SKIPPY_CONCAT(api_try_, __LINE__)).error()); \
  declaration = std::move(*SKIPPY_CONCAT(api_try_, __LINE__))

#define API_RETURN_IF_ERROR(expression)                                              \
  do {                                                                               \
    if (auto api_status = (expression); !api_status)                                 \
      return tl::unexpected<::skippy::api::ApiError>(std::move(api_status).error()); \
  } while (false)

}  // namespace skippy::api
