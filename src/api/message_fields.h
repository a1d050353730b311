// Messages and tools of chat requests, before templates see them. Pure.
#pragma once

#include "api/request_fields.h"

namespace skippy::api {

// messages: an array of objects with known roles and text contents; tool-call arguments of sane
// nesting.
ApiStatus CheckMessages(const Json& body);

// tools: an array of functions with names and schemas that the grammar builder can take.
ApiStatus CheckTools(const Json& body);

}  // namespace skippy::api
