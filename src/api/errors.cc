#include "api/errors.h"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <utility>

#include "json.h"

namespace skippy::api {
namespace {

// Anthropic's names for the same conditions.
std::string AnthropicType(const ApiError& error) {
  switch (error.status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    default: break;
  }
  return error.status < 500 ? "invalid_request_error" : "api_error";
}

common_json ErrorObject(const ApiError& error, Dialect dialect) {
  if (dialect == Dialect::kAnthropic) {
    return common_json{
        {"type", "error"},
        {"error", {{"type", AnthropicType(error)}, {"message", error.message}}},
    };
  }
  common_json inner{
      {"code", error.status}, {"message", error.message}, {"type", error.type}, {"param", nullptr}};
  if (error.context > 0) {
    inner["n_prompt_tokens"] = error.prompt_tokens;
    inner["n_ctx"] = error.context;
  }
  return common_json{{"error", inner}};
}

// nlohmann's prefix "[json.exception.parse_error.101] " tells a client nothing.
std::string WithoutLibraryPrefix(std::string message) {
  constexpr std::string_view kPrefix = "[json.exception.";
  if (message.rfind(kPrefix, 0) == 0) {
    if (const auto end = message.find("] "); end != std::string::npos) message.erase(0, end + 2);
  }
  return message;
}

// Messages of llama.cpp may quote the request; a client does not need megabytes of it back.
std::string Shortened(std::string message) {
  constexpr std::size_t kLongest = 2000;
  if (message.size() > kLongest) {
    message.resize(kLongest);
    message += "...";
  }
  return message;
}

}  // namespace

tl::unexpected<ApiError> BadRequest(std::string message) {
  return tl::unexpected<ApiError>(
      ApiError{.status = 400, .type = "invalid_request_error", .message = std::move(message)});
}

tl::unexpected<ApiError> NotSupported(std::string message) {
  return tl::unexpected<ApiError>(
      ApiError{.status = 501, .type = "not_supported_error", .message = std::move(message)});
}

tl::unexpected<ApiError> TooLarge(std::string message) {
  return tl::unexpected<ApiError>(
      ApiError{.status = 413, .type = "invalid_request_error", .message = std::move(message)});
}

ApiError ContextExceeded(std::uint32_t prompt_tokens, std::uint32_t context, bool at_least) {
  return ApiError{
      .status = 400,
      .type = "exceed_context_size_error",
      .message = fmt::format("request ({}{} tokens) exceeds the available context size ({} "
                             "tokens), try increasing it",
                             at_least ? "at least " : "", prompt_tokens, context),
      .prompt_tokens = prompt_tokens,
      .context = context};
}

ApiError Unavailable(std::string message) {
  return ApiError{.status = 503, .type = "unavailable_error", .message = std::move(message)};
}

ApiError FromError(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return ApiError{.status = 400, .type = "invalid_request_error", .message = error.message};
    case ErrorCode::kNotFound:
      return ApiError{.status = 404, .type = "not_found_error", .message = error.message};
    case ErrorCode::kUnsupported:
      return ApiError{.status = 501, .type = "not_supported_error", .message = error.message};
    case ErrorCode::kResourceExhausted:
      return ApiError{.status = 429, .type = "rate_limit_error", .message = error.message};
    case ErrorCode::kUnavailable:
    case ErrorCode::kCancelled: return Unavailable(error.message);
    case ErrorCode::kCorruption:
    case ErrorCode::kInternal: break;
  }
  return ApiError{.status = 500, .type = "server_error", .message = error.message};
}

ApiError FromStatus(int status) {
  switch (status) {
    case 400: return {400, "invalid_request_error", "malformed HTTP request"};
    case 401: return {401, "authentication_error", "Invalid API Key"};
    case 404: return {404, "not_found_error", "no such path on this server"};
    case 405: return {405, "invalid_request_error", "this path does not take this method"};
    case 413:
      return {413, "invalid_request_error", "the request body is larger than this server accepts"};
    case 414: return {414, "invalid_request_error", "the URL is too long"};
    case 415: return {415, "invalid_request_error", "this content encoding is not supported"};
    case 431: return {431, "invalid_request_error", "the request headers are too large"};
    default: break;
  }
  if (status < 500) return {status, "invalid_request_error", fmt::format("HTTP status {}", status)};
  return {status, "server_error", "internal server error"};
}

std::string ErrorBody(const ApiError& error, Dialect dialect) {
  return ErrorObject(error, dialect).dump_safe();
}

std::string ErrorEvent(const ApiError& error, Dialect dialect) {
  const std::string data = ErrorBody(error, dialect);
  return dialect == Dialect::kAnthropic ? "event: error\ndata: " + data + "\n\n"
                                        : "data: " + data + "\n\n";
}

tl::unexpected<ApiError> FromException() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return tl::unexpected<ApiError>(
        ApiError{.status = 500, .type = "server_error", .message = "out of memory"});
  } catch (const std::exception& e) {
    return BadRequest(Shortened(WithoutLibraryPrefix(e.what())));
  } catch (...) {
    return tl::unexpected<ApiError>(
        ApiError{.status = 500, .type = "server_error", .message = "unknown error"});
  }
}

}  // namespace skippy::api
