#include "api/completion_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "api/body_scan.h"
#include "api/message_boundaries.h"
#include "common.h"
#include "sampling.h"
#include "server-schema.h"

namespace skippy::api {
namespace {

bool IsTokenId(const Json& value, std::int64_t vocab) {
  if (!value.is_number_integer()) return false;
  const double id = value.get<double>();
  return id >= 0 && id < static_cast<double>(vocab);
}

// A text so long that even tokens of the greatest length would not fit is refused before it is
// tokenized: some tokenizers take time and stack in proportion.
ApiStatus CheckTextLength(const ServerState& state, const std::string& text) {
  const std::size_t least_tokens = text.size() / state.longest_piece;
  if (least_tokens < state.info.context) return CheckText(text, "prompt");
  return tl::unexpected<ApiError>(
      ContextExceeded(static_cast<std::uint32_t>(std::min<std::size_t>(least_tokens, UINT32_MAX)),
                      state.info.context, true));
}

ApiStatus CheckElement(const ServerState& state, const Json& element) {
  if (element.is_string()) return CheckTextLength(state, element.get<std::string>());
  if (IsTokenId(element, state.info.vocab)) return {};
  if (element.is_number()) {
    return BadRequest(
        fmt::format("'prompt' holds a token id outside 0 to {}", state.info.vocab - 1));
  }
  return BadRequest(
      "'prompt' must be a string, an array of token ids and strings, or an array of these");
}

// One prompt: a string, an array of ids and strings, or {"prompt_string": ...}.
ApiStatus CheckOnePrompt(const ServerState& state, const Json& prompt) {
  if (prompt.is_object()) {
    if (Has(prompt, "multimodal_data")) {
      return BadRequest("this server serves text only; 'multimodal_data' is not supported");
    }
    if (!Has(prompt, "prompt_string") || !prompt.at("prompt_string").is_string()) {
      return BadRequest("a 'prompt' object needs a string 'prompt_string'");
    }
    return CheckElement(state, prompt.at("prompt_string"));
  }
  if (!prompt.is_array()) return CheckElement(state, prompt);
  if (prompt.empty()) return BadRequest("'prompt' must not be empty");
  for (const Json& element : prompt) API_RETURN_IF_ERROR(CheckElement(state, element));
  return {};
}

bool IsListOfPrompts(const Json& prompt) {
  if (!prompt.is_array() || prompt.empty()) return false;
  bool numbers = false;
  bool nested = false;
  for (const Json& element : prompt) {
    numbers = numbers || element.is_number();
    nested = nested || element.is_array() || element.is_object();
  }
  return nested || !numbers;  // strings only are several prompts, strings and numbers mixed are one
}

std::vector<Pos> MessageStarts(const ServerState& state, const Json& data,
                               const std::vector<Token>& tokens) {
  if (!Has(data, "message_boundaries")) return {};
  std::vector<std::size_t> offsets;
  for (const Json& offset : data.at("message_boundaries"))
    offsets.push_back(offset.get<std::size_t>());
  std::vector<std::string> pieces;
  pieces.reserve(tokens.size());
  for (const Token token : tokens)
    pieces.push_back(common_token_to_piece(state.vocab, token, true));
  return TokenBoundaries(pieces, data.at("prompt").get<std::string>(), offsets);
}

using OptionalAdapters = std::optional<ServerState::Adapters>;

ApiResult<OptionalAdapters> RequestedAdapters(const ServerState& state, const Json& data) {
  if (!Has(data, "lora")) return OptionalAdapters();
  std::vector<float> scales(state.model.adapters().size(), 0.0F);
  for (const Json& entry : data.at("lora")) {
    const double id = entry.at("id").get<double>();
    if (id < 0 || id >= static_cast<double>(scales.size())) {
      return BadRequest(
          fmt::format("'lora' names adapter {:.0f}; {} adapter(s) are loaded", id, scales.size()));
    }
    scales[static_cast<std::size_t>(id)] = entry.at("scale").get<float>();
  }
  ServerState::Adapters active;
  for (std::size_t i = 0; i < scales.size(); ++i) {
    if (scales[i] != 0) active.emplace_back(static_cast<std::uint32_t>(i), scales[i]);
  }
  return OptionalAdapters(std::move(active));
}

// llama.cpp skips names that it does not know; a client who misspells one should hear of it.
ApiStatus CheckSamplers(const Json& data) {
  if (!Has(data, "samplers")) return {};
  const Json& samplers = data.at("samplers");
  if (samplers.is_array()) {
    for (const Json& name : samplers) {
      if (common_sampler_types_from_names({name.get<std::string>()}).size() != 1) {
        return BadRequest(fmt::format("'samplers' names the unknown sampler '{}'",
                                      name.get<std::string>().substr(0, 40)));
      }
    }
    return {};
  }
  const std::string letters = samplers.get<std::string>();
  if (common_sampler_types_from_chars(letters).size() != letters.size()) {
    return BadRequest("'samplers' has a letter that stands for no sampler");
  }
  return {};
}

ApiStatus CheckGrammarCost(const std::string& grammar) {
  const GrammarShape shape = MeasureGrammar(grammar);
  if (shape.alternatives > kMaxAlternatives) {
    return BadRequest(
        fmt::format("the grammar (or the schema behind it) has a choice of {} alternatives; more "
                    "than {} would hold up "
                    "the other requests",
                    shape.alternatives + 1, kMaxAlternatives));
  }
  if (shape.class_bytes > kMaxClassBytes) {
    return BadRequest(
        fmt::format("the grammar has a character class of more than {} bytes", kMaxClassBytes));
  }
  return {};
}

ApiResult<task_params> ParseParams(const ServerState& state, const Json& data) {
  return Guarded([&]() -> ApiResult<task_params> {
    task_params params = server_schema::eval_llama_cmpl_schema(state.vocab, state.params,
                                                               state.logit_bias_eog, data);
    params.sampling.backend_sampling = false;
    API_RETURN_IF_ERROR(CheckGrammarCost(common_grammar_value(params.sampling.grammar)));
    for (const llama_logit_bias& bias : params.sampling.logit_bias) {
      if (std::isnan(bias.bias)) return BadRequest("'logit_bias' must be finite");
    }
    return params;
  });
}

}  // namespace

ApiResult<std::vector<std::vector<Token>>> TokenizePrompts(const ServerState& state,
                                                           const Json& data, bool add_special) {
  if (!Has(data, "prompt")) return BadRequest("'prompt' is required");
  const Json& prompt = data.at("prompt");
  if (IsListOfPrompts(prompt)) {
    if (prompt.size() > state.settings.max_choices) {
      return BadRequest(fmt::format("'prompt' has {} prompts; at most {} are served at once",
                                    prompt.size(), state.settings.max_choices));
    }
    for (const Json& one : prompt) API_RETURN_IF_ERROR(CheckOnePrompt(state, one));
  } else {
    API_RETURN_IF_ERROR(CheckOnePrompt(state, prompt));
  }
  return Guarded([&]() -> ApiResult<std::vector<std::vector<Token>>> {
    std::vector<std::vector<Token>> prompts;
    for (const server_tokens& tokens :
         tokenize_input_prompts(state.vocab, nullptr, prompt, add_special, true, {})) {
      if (tokens.empty()) return BadRequest("the prompt is empty");
      if (tokens.size() >= state.info.context) {
        return tl::unexpected<ApiError>(
            ContextExceeded(static_cast<std::uint32_t>(tokens.size()), state.info.context));
      }
      prompts.push_back(tokens.get_tokens());
    }
    return prompts;
  });
}

ApiResult<CompletionPlan> MakePlan(const ServerState& state, const Json& data,
                                   task_response_type type) {
  CompletionPlan plan;
  API_RETURN_IF_ERROR(Guarded([&] { return CheckSamplers(data); }));
  API_TRY(plan.params, ParseParams(state, data));
  API_TRY(plan.adapters, RequestedAdapters(state, data));
  API_TRY(auto prompts, TokenizePrompts(state, data, true));
  plan.choices = static_cast<std::uint32_t>(std::max(1, plan.params.n_cmpl));
  const std::size_t requests = prompts.size() * plan.choices;
  if (requests > state.settings.max_choices) {
    return BadRequest(
        fmt::format("the request asks for {} completions; at most {} are served at once", requests,
                    state.settings.max_choices));
  }
  for (std::vector<Token>& tokens : prompts) {
    std::vector<Pos> starts = MessageStarts(state, data, tokens);
    plan.prompts.push_back({std::move(tokens), std::move(starts)});
  }
  plan.cache_salt = StringOr(data, "cache_salt");
  plan.params.res_type = type;
  plan.params.oaicompat_model = state.model_name;
  // OpenAI's logprobs without top_logprobs: 0 alternatives, but the token's own probability.
  if (type == TASK_RESPONSE_TYPE_OAI_CHAT && BoolOr(data, "logprobs", false) &&
      plan.params.sampling.n_probs == 0) {
    plan.params.sampling.n_probs = 1;
    plan.top_logprobs = false;
  }
  return plan;
}

}  // namespace skippy::api
