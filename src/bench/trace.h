// A trace of requests without text, as Mooncake publishes them: JSON Lines of timestamp (ms),
// input_length, output_length (tokens) and hash_ids. An id names a block of tokens together with
// all that stands before it, so two requests share a prefix exactly as far as their ids agree. The
// last block of a request may be partial; it then has an id of its own.
//
// Source of the format: Mooncake's trace release (FAST'25), blocks of 512 tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "skippy/result.h"
#include "skippy/types.h"

namespace skippy::bench {

struct TraceRequest {
  std::uint64_t timestamp_ms = 0;
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::vector<std::uint64_t> blocks;

  bool operator==(const TraceRequest&) const = default;
};

struct Trace {
  std::uint32_t block_tokens = 512;
  std::vector<TraceRequest> requests;

  std::uint64_t input_tokens() const;  // of all requests
  std::uint32_t longest() const;       // tokens of the longest input
  bool operator==(const Trace&) const = default;
};

// kNotFound: no such file; kInvalidArgument: the first line that is not a request of the format,
// with its number and what is wrong. limit: most requests to read; 0: all.
Result<Trace> ReadTrace(const std::string& path, std::uint32_t block_tokens, std::size_t limit);

// The same sharing with shorter texts: blocks of block_tokens / divisor, which must be whole.
Result<Trace> Scaled(const Trace& trace, std::uint32_t divisor);

// Tokens below `vocabulary`, the same for the same ids.
std::vector<Token> PromptOf(const Trace& trace, const TraceRequest& request,
                            std::uint32_t vocabulary);

}  // namespace skippy::bench
