#include "api/chat_request.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/message_boundaries.h"
#include "api/message_fields.h"
#include "api/tool_prompt.h"
#include "chat.h"
#include "server-chat.h"

namespace skippy::api {
namespace {

struct ToolChoice {
  enum class Mode : std::uint8_t { kAuto, kNone, kRequired } mode = Mode::kAuto;
  std::string name;  // the one function that must be called; empty: any
};

ApiResult<ToolChoice> ParseToolChoice(const Json& body) {
  using Mode = ToolChoice::Mode;
  if (!Has(body, "tool_choice")) return ToolChoice{};
  const Json& choice = body.at("tool_choice");
  std::string word = choice.is_string() ? choice.get<std::string>() : StringOr(choice, "type");
  if (choice.is_object() && word == "function") {
    // {"type": "function", "function": {"name": ...}} in chat, {"type": "function", "name": ...} in
    // responses
    ToolChoice named{Mode::kRequired, Has(choice, "function")
                                          ? StringOr(choice.at("function"), "name")
                                          : StringOr(choice, "name")};
    if (named.name.empty())
      return BadRequest("'tool_choice' of type function needs a function name");
    return named;
  }
  if (word == "auto") return ToolChoice{};
  if (word == "none") return ToolChoice{Mode::kNone, ""};
  if (word == "required" || word == "any") return ToolChoice{Mode::kRequired, ""};
  return BadRequest(
      "'tool_choice' must be \"auto\", \"none\", \"required\" or {\"type\": \"function\", "
      "\"function\": "
      "{\"name\": ...}}");
}

ApiResult<Json> OnlyTool(const Json& tools, const std::string& name) {
  for (const Json& tool : tools) {
    if (tool.at("function").at("name").get<std::string>() == name) {
      Json one = Json::array();
      one.push_back(tool);
      return one;
    }
  }
  return BadRequest(
      fmt::format("'tool_choice' names the function '{}', which is not in 'tools'", name));
}

ApiResult<Json> Render(const ServerState& state, Json body) {
  return Guarded([&]() -> ApiResult<Json> {
    std::vector<raw_buffer> files;
    Json rendered = oaicompat_chat_params_parse(body, state.chat, files);
    // Only memory that cannot be cut back resumes at boundaries; for others the search is wasted.
    if (state.info.shape.HasSnapshot()) {
      rendered["message_boundaries"] =
          MessageBoundaries(body.at("messages"), rendered.at("prompt").get<std::string>());
    }
    return rendered;
  });
}

// A grammar of ours for templates without tools.
ApiResult<Json> RenderWithToolPrompt(const ServerState& state, Json body, const Json& tools,
                                     const Json& callable, ToolChoice::Mode mode) {
  return Guarded([&]() -> ApiResult<Json> {
    DescribeTools(body["messages"], tools);
    for (const char* key : {"tools", "tool_choice", "parallel_tool_calls"}) body.erase(key);
    const bool formatted =
        Has(body, "response_format") || Has(body, "json_schema") || Has(body, "grammar");
    const bool required = mode == ToolChoice::Mode::kRequired;
    if (required) {
      for (const char* key : {"response_format", "json_schema", "grammar"}) body.erase(key);
    }
    API_TRY(Json rendered, Render(state, std::move(body)));
    // The client's own output format and optional calls exclude each other; the format is the
    // stricter wish.
    if (mode == ToolChoice::Mode::kNone || (formatted && !required)) return rendered;
    const ToolGrammar built =
        BuildToolGrammar(callable, StringOr(rendered, "generation_prompt"), required);
    rendered["grammar"] = built.grammar;
    rendered["grammar_type"] = "tool_calls";
    rendered["grammar_lazy"] = !required;
    rendered["grammar_triggers"] = Json::array();
    if (!required) {
      rendered["grammar_triggers"].push_back(
          server_grammar_trigger(common_grammar_trigger{COMMON_GRAMMAR_TRIGGER_TYPE_WORD,
                                                        built.trigger, LLAMA_TOKEN_NULL})
              .to_json());
    }
    rendered["chat_format"] = static_cast<int>(COMMON_CHAT_FORMAT_PEG_NATIVE);
    rendered["chat_parser"] = built.parser;
    rendered["parse_tool_calls"] = true;
    return rendered;
  });
}

// OpenAI's text.format of the Responses API, which llama.cpp's conversion leaves aside.
ApiStatus CarryTextFormat(const Json& responses_body, Json& chat_body) {
  if (!Has(responses_body, "text") || !responses_body.at("text").is_object() ||
      !Has(responses_body.at("text"), "format")) {
    return {};
  }
  const Json& format = responses_body.at("text").at("format");
  if (!format.is_object()) return BadRequest("'text.format' must be an object");
  const std::string type = StringOr(format, "type");
  if (type == "json_schema") {
    if (!Has(format, "schema"))
      return BadRequest("'text.format' of type json_schema needs 'schema'");
    chat_body["response_format"] =
        Json{{"type", "json_schema"}, {"json_schema", Json{{"schema", format.at("schema")}}}};
  } else if (type == "json_object") {
    chat_body["response_format"] = Json{{"type", "json_object"}};
  } else if (type != "text") {
    return BadRequest("'text.format.type' must be \"text\", \"json_object\" or \"json_schema\"");
  }
  return {};
}

ApiResult<Json> FromResponses(const Json& body) {
  return Guarded([&]() -> ApiResult<Json> {
    Json normalized = body;
    if (Has(normalized, "input") && normalized.at("input").is_array()) {
      Json items = Json::array();
      for (Json item : normalized.at("input")) {
        if (!item.is_object()) return BadRequest("the items of 'input' must be objects");
        // Client libraries leave the type of plain messages out.
        if (Has(item, "role") && !Has(item, "type")) item["type"] = "message";
        items.push_back(std::move(item));
      }
      normalized["input"] = std::move(items);
    }
    Json chat = server_chat_convert_responses_to_chatcmpl(normalized);
    API_RETURN_IF_ERROR(CarryTextFormat(body, chat));
    for (const char* key : {"text", "logprobs", "top_logprobs"}) chat.erase(key);
    return chat;
  });
}

// Anthropic's own fields; the conversion passes over what has the wrong type.
ApiStatus CheckMessagesApi(const Json& body) {
  if (!Has(body, "messages") || !body.at("messages").is_array()) {
    return BadRequest("'messages' must be an array");
  }
  if (Has(body, "system") && !body.at("system").is_string() && !body.at("system").is_array()) {
    return BadRequest("'system' must be a string or an array of text blocks");
  }
  for (const char* name : {"tools", "stop_sequences"}) {
    if (Has(body, name) && !body.at(name).is_array()) {
      return BadRequest(fmt::format("'{}' must be an array", name));
    }
  }
  for (const char* name : {"thinking", "metadata", "tool_choice"}) {
    if (Has(body, name) && !body.at(name).is_object()) {
      return BadRequest(fmt::format("'{}' must be an object", name));
    }
  }
  if (Has(body, "tools")) {
    for (const Json& tool : body.at("tools")) {
      if (StringOr(tool, "name").empty())
        return BadRequest("each of 'tools' needs a string 'name'");
    }
  }
  return {};
}

ApiResult<Json> FromMessages(const Json& body) {
  API_RETURN_IF_ERROR(CheckMessagesApi(body));
  if (Has(body, "max_tokens") && body.at("max_tokens").is_number() &&
      body.at("max_tokens").get<double>() < 1) {
    return BadRequest("'max_tokens' must be at least 1");
  }
  return Guarded([&]() -> ApiResult<Json> {
    Json chat = server_chat_convert_anthropic_to_oai(body);
    if (Has(body, "tool_choice")) {
      const Json& choice = body.at("tool_choice");
      const std::string type = StringOr(choice, "type");
      if (type == "tool") {
        chat["tool_choice"] =
            Json{{"type", "function"}, {"function", Json{{"name", StringOr(choice, "name")}}}};
      } else if (type == "none") {
        chat["tool_choice"] = "none";
      } else if (type != "auto" && type != "any") {
        return BadRequest("'tool_choice.type' must be auto, any, tool or none");
      }
    }
    for (const char* key :
         {"model", "cache_prompt", "cache_salt", "seed", "lora", "id_slot", "min_p",
          "timings_per_token", "return_progress", "n_cache_reuse", "grammar"}) {
      if (Has(body, key)) chat[key] = body.at(key);
    }
    return chat;
  });
}

}  // namespace

ApiResult<Json> ToChatBody(const ServerState& state, Json body, ChatDialect dialect) {
  API_RETURN_IF_ERROR(RefuseInternalFields(body));
  if (dialect == ChatDialect::kResponses) {
    API_TRY(body, FromResponses(body));
  } else if (dialect == ChatDialect::kMessages) {
    API_TRY(body, FromMessages(body));
  }
  API_RETURN_IF_ERROR(CheckFields(body, state.Limits()));
  API_RETURN_IF_ERROR(RefuseInexact(body));
  API_RETURN_IF_ERROR(CheckMessages(body));
  // Rendering takes time and memory by the message; templates spend a token at least on each.
  const std::size_t messages = body.at("messages").size();
  if (messages > state.info.context) {
    return tl::unexpected<ApiError>(
        ContextExceeded(static_cast<std::uint32_t>(messages), state.info.context, true));
  }
  API_RETURN_IF_ERROR(CheckTools(body));
  if (Has(body, "logprobs") && !body.at("logprobs").is_boolean()) {
    return BadRequest("'logprobs' must be a boolean");
  }
  if (dialect != ChatDialect::kChat) {
    for (const char* key : {"n", "n_cmpl"}) {
      if (Has(body, key) && body.at(key).get<double>() != 1) {
        return BadRequest(fmt::format("'{}' must be 1 here: this API returns one answer", key));
      }
    }
  }
  NormalizeNumbers(body, state.Limits());
  return body;
}

ApiResult<Json> ApplyTemplate(const ServerState& state, Json body) {
  API_TRY(const ToolChoice choice, ParseToolChoice(body));
  const bool has_tools = Has(body, "tools") && !body.at("tools").empty();
  if (!has_tools) {
    if (choice.mode == ToolChoice::Mode::kRequired)
      return BadRequest("'tool_choice' asks for a call, but there are no 'tools'");
    for (const char* key : {"tools", "tool_choice"}) body.erase(key);
    return Render(state, std::move(body));
  }
  if (Has(body, "grammar") && choice.mode != ToolChoice::Mode::kNone) {
    return BadRequest("'grammar' and 'tools' cannot be used together");
  }
  const Json tools = body.at("tools");
  Json callable = tools;
  if (!choice.name.empty()) {
    API_TRY(callable, OnlyTool(tools, choice.name));
  }
  if (!state.template_knows_tools || !state.chat.use_jinja) {
    return RenderWithToolPrompt(state, std::move(body), tools, callable, choice.mode);
  }

  constexpr const char* kWords[] = {"auto", "none", "required"};
  body["tool_choice"] = kWords[static_cast<std::size_t>(choice.mode)];
  API_TRY(Json rendered, Render(state, body));
  if (choice.mode != ToolChoice::Mode::kRequired) return rendered;
  if (!choice.name.empty()) {
    // Grammar and parser from the one function, the prompt from all of them: the text that the
    // model sees does not depend on which call is forced, so the cached prefix stays.
    const Json all = rendered;
    body["tools"] = callable;
    API_TRY(rendered, Render(state, body));
    for (const char* key : {"prompt", "message_boundaries"})
      if (Has(all, key)) rendered[key] = all.at(key);
  }
  if (StringOr(rendered, "grammar").empty()) {
    // The template's own format could not be made out, so nothing would force the call.
    body["tools"] = tools;
    return RenderWithToolPrompt(state, std::move(body), tools, callable, choice.mode);
  }
  return rendered;
}

}  // namespace skippy::api
