// TokenRows: what enters the first stage for tokens. Threads: thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "skippy/result.h"
#include "skippy/types.h"

namespace skippy::pipeline {

class TokenRows {
 public:
  virtual ~TokenRows() = default;
  virtual std::uint32_t width() const = 0;   // floats a token
  virtual std::uint32_t tokens() const = 0;  // of the vocabulary
  // out.size() == tokens.size() * width(), token-major. kInvalidArgument: no such token.
  virtual Status Rows(TokenSpan tokens, std::span<float> out) const = 0;
};

}  // namespace skippy::pipeline
