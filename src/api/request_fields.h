// What fields of a request may hold, checked before llama.cpp's own parsing sees them: that parsing
// falls back to a default on a wrong type, wraps numbers that do not fit, and trusts fields that
// its own server sets. Pure functions of the JSON; no state.
#pragma once

#include <cstdint>

#include "api/errors.h"
#include "json.h"

namespace skippy::api {

using Json = common_json;

struct FieldLimits {
  std::int64_t max_choices = 1;  // most completions of one request (n)
  std::int64_t context = 0;      // positions a lane
  std::int64_t vocab = 0;
};

// Parses a body into an object. 400: not JSON, not an object, nested too deep; the message says
// where.
ApiResult<Json> ParseBody(const std::string& body);

// Types and ranges of all fields that completion requests of any dialect may carry. Unknown fields
// pass.
ApiStatus CheckFields(const Json& body, const FieldLimits& limits);

// Puts numbers into the ranges that the samplers can hold, and seeds into 32 bits.
void NormalizeNumbers(Json& body, const FieldLimits& limits);

// Text that a tokenizer can take without running out of stack.
ApiStatus CheckText(const std::string& text, const char* where);

// Fields that llama.cpp's server passes to itself; a client has no business with them.
ApiStatus RefuseInternalFields(const Json& body);

// Requests for what is not exact (context shift, chunk reuse) or not there (embeddings, media).
ApiStatus RefuseInexact(const Json& body);

// True when the key is there and not null.
bool Has(const Json& body, const char* key);
// The string under `key`, or "" when it is absent or of another type.
std::string StringOr(const Json& body, const char* key);
bool BoolOr(const Json& body, const char* key, bool fallback);

}  // namespace skippy::api
