// Errors are values: Result<T> holds a T or an Error, and the compiler warns when it is ignored.
//
// A miss, a refused record or "already there" is not an error (docs/decisions/0001). An Error's
// code says what the caller should do; its message is written for the person who will read it. No
// exception leaves src/llama or src/api, and none is thrown by the rest of our code.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace skippy {

enum class ErrorCode {
  kInvalidArgument,    // the caller's input is wrong: fix it and call again
  kNotFound,           // the thing named does not exist
  kResourceExhausted,  // a limit is reached: try later or raise the limit
  kCorruption,         // stored data is damaged: drop it, recompute
  kUnsupported,        // this model, build or runtime cannot do it
  kUnavailable,        // a passing condition (shutting down, a part is away): try again
  kCancelled,          // the caller asked for it
  kInternal,           // a broken invariant of ours
};

const char* ErrorCodeName(ErrorCode code);

struct Error {
  ErrorCode code;
  std::string message;
};

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

using Status = Result<void>;

inline tl::unexpected<Error> Err(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

#define SKIPPY_CONCAT_INNER(a, b) a##b
#define SKIPPY_CONCAT(a, b) SKIPPY_CONCAT_INNER(a, b)

// SKIPPY_TRY(auto x, F());  binds x to F's value or returns its error.
#define SKIPPY_TRY(declaration, expression)                       \
  auto SKIPPY_CONCAT(skippy_try_, __LINE__) = (expression);       \
  if (!SKIPPY_CONCAT(skippy_try_, __LINE__))                      \
    return tl::unexpected<::skippy::Error>(                       \
        std::move(SKIPPY_CONCAT(skippy_try_, __LINE__)).error()); \
  declaration = std::move(*SKIPPY_CONCAT(skippy_try_, __LINE__))

#define SKIPPY_RETURN_IF_ERROR(expression)                                      \
  do {                                                                          \
    if (auto skippy_status = (expression); !skippy_status)                      \
      return tl::unexpected<::skippy::Error>(std::move(skippy_status).error()); \
  } while (false)

}  // namespace skippy
