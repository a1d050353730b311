// JSON schemas of requests, before llama.cpp's converters see them. Pure.
#pragma once

#include "api/request_fields.h"

namespace skippy::api {

// A schema whose size the grammar builder can take (its cost grows steeply with optional
// properties). `where`: the field it stands in, for the message.
ApiStatus CheckSchema(const Json& schema, const char* where);

// The same for the schema of an answer, which must also convert.
ApiStatus CheckOutputSchema(const Json& schema);

}  // namespace skippy::api
