// From a chat request of any dialect to the parameters of a completion.
#pragma once

#include "api/server_state.h"

namespace skippy::api {

enum class ChatDialect : std::uint8_t { kChat, kResponses, kMessages };

// Converts a Responses or Messages body into a chat-completions body and checks all of it. Fields
// that llama.cpp's conversions drop and that mean something here are carried over.
ApiResult<Json> ToChatBody(const ServerState& state, Json body, ChatDialect dialect);

// Applies the chat template. The result holds what llama.cpp's completion parsing takes: prompt,
// grammar, parser of the answer, stops, and all sampling fields of the body.
ApiResult<Json> ApplyTemplate(const ServerState& state, Json chat_body);

}  // namespace skippy::api
