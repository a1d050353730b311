// Work ahead for a chat: after an answer, the finished turn is evaluated as the client's next
// request will send it, while nothing else is to do. Worth having where the template renders an
// answer in the history otherwise than the model wrote it (reasoning stripped, tool calls
// reformatted), and in the bit-exact setting, which reuses nothing that was computed token by
// token.
#pragma once

#include <string>
#include <vector>

#include "api/server_state.h"
#include "skippy/types.h"

namespace skippy::api {

// The tokens that the next request of this chat begins with, whatever it says: the template's text
// of `chat` (as ToChatBody made it) and `answer` (an OpenAI message), up to where the next
// message's content begins. An error where the template does not show that place, or the text is
// too long. Cost: one rendering and tokenizing.
ApiResult<std::vector<Token>> NextTurnPrefix(const ServerState& state, Json chat,
                                             const Json& answer);

// Hands the prefix to the engine as idle work. Failing is no error: it saves time or it does not.
void EvaluateAhead(ServerState& state, std::vector<Token> prefix, const std::string& tenant_salt,
                   const ServerState::Adapters& adapters);

}  // namespace skippy::api
