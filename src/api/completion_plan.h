// A checked completion request, ready to be handed to the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/server_state.h"
#include "server-task.h"
#include "skippy/types.h"

namespace skippy::api {

struct PromptPlan {
  std::vector<Token> tokens;
  std::vector<Pos> message_starts;
};

struct CompletionPlan {
  std::vector<PromptPlan> prompts;
  std::uint32_t choices = 1;  // completions of each prompt
  task_params params;
  std::optional<ServerState::Adapters>
      adapters;            // none: the server's defaults at the time of the run
  std::string cache_salt;  // as the client gave it
  // The chat behind it, where the turn after it may be evaluated ahead; null otherwise.
  std::shared_ptr<const Json> chat;
  bool top_logprobs = true;  // false: only the sampled token's own probability was asked for
};

// Checks and tokenizes the prompt(s) under "prompt": a string, token ids, a mix, or a list of
// these. Special tokens in the text are parsed as such. 400: wrong shape, ids outside the
// vocabulary, empty, over the context.
ApiResult<std::vector<std::vector<Token>>> TokenizePrompts(const ServerState& state,
                                                           const Json& data, bool add_special);

// `data` is the body of a native or OpenAI completion request after CheckFields, or what
// ApplyTemplate made of a chat. The plan depends on nothing else.
ApiResult<CompletionPlan> MakePlan(const ServerState& state, const Json& data,
                                   task_response_type type);

}  // namespace skippy::api
