// Paths about text and tokens that generate nothing: tokenize, detokenize, templates, counting.
#include <fmt/format.h>

#include <utility>

#include "api/chat_request.h"
#include "api/completion_plan.h"
#include "api/routes.h"
#include "api/text_assembler.h"

namespace skippy::api {
namespace {

ApiResult<Json> Tokenize(const ServerState& state, const Json& body) {
  for (const char* name : {"add_special", "parse_special", "with_pieces"}) {
    if (Has(body, name) && !body.at(name).is_boolean()) {
      return BadRequest(fmt::format("'{}' must be a boolean", name));
    }
  }
  if (!body.contains("content")) return Json{{"tokens", Json::array()}};
  const Json& content = body.at("content");
  const bool shaped = content.is_string() || content.is_array();
  if (!shaped) return BadRequest("'content' must be a string or an array of strings and token ids");
  if (content.is_array()) {
    for (const Json& element : content) {
      const double id = element.is_number_integer() ? element.get<double>() : -1;
      const bool known = id >= 0 && id < static_cast<double>(state.info.vocab);
      if (element.is_string())
        API_RETURN_IF_ERROR(CheckText(element.get<std::string>(), "content"));
      if (!element.is_string() && !known) {
        return BadRequest(fmt::format(
            "'content' must be a string or an array of strings and token ids from 0 to {}",
            state.info.vocab - 1));
      }
    }
  }
  if (content.is_string()) {
    API_RETURN_IF_ERROR(CheckText(content.get<std::string>(), "content"));
  }
  const llama_tokens tokens =
      tokenize_mixed(state.vocab, content, BoolOr(body, "add_special", false),
                     BoolOr(body, "parse_special", true));
  if (!BoolOr(body, "with_pieces", false)) return Json{{"tokens", Json(tokens)}};
  Json pieces = Json::array();
  for (const llama_token token : tokens) {
    Json entry{{"id", token}};
    const std::string piece = common_token_to_piece(state.vocab, token);
    if (ValidUtf8(piece)) {
      entry["piece"] = piece;
    } else {
      Json bytes = Json::array();
      for (const char c : piece) bytes.push_back(static_cast<int>(static_cast<unsigned char>(c)));
      entry["piece"] = std::move(bytes);
    }
    pieces.push_back(std::move(entry));
  }
  return Json{{"tokens", std::move(pieces)}};
}

ApiResult<Json> Detokenize(const ServerState& state, const Json& body) {
  if (!Has(body, "tokens")) return Json{{"content", ""}};
  if (!body.at("tokens").is_array()) return BadRequest("'tokens' must be an array of token ids");
  llama_tokens tokens;
  for (const Json& token : body.at("tokens")) {
    const double id = token.is_number_integer() ? token.get<double>() : -1;
    if (id < 0 || id >= static_cast<double>(state.info.vocab)) {
      return BadRequest(
          fmt::format("'tokens' must hold token ids from 0 to {}", state.info.vocab - 1));
    }
    tokens.push_back(static_cast<llama_token>(id));
  }
  return Json{{"content", tokens_to_str(state.vocab, tokens)}};
}

ApiResult<Json> CountTokens(const ServerState& state, Json body, ChatDialect dialect) {
  API_TRY(Json chat, ToChatBody(state, std::move(body), dialect));
  API_TRY(const Json rendered, ApplyTemplate(state, std::move(chat)));
  API_RETURN_IF_ERROR(CheckText(rendered.at("prompt").get<std::string>(), "messages"));
  const auto count = tokenize_mixed(state.vocab, rendered.at("prompt"), true, true).size();
  Json answer{{"input_tokens", count}};
  if (dialect != ChatDialect::kMessages) answer["object"] = "response.input_tokens";
  return answer;
}

ApiResult<Json> RenderTemplate(const ServerState& state, Json body) {
  API_TRY(Json chat, ToChatBody(state, std::move(body), ChatDialect::kChat));
  API_TRY(const Json rendered, ApplyTemplate(state, std::move(chat)));
  return Json{{"prompt", rendered.at("prompt")}};
}

}  // namespace

void AddTextRoutes(std::vector<Route>& routes, ServerState& state) {
  const auto add = [&](const char* path, Dialect dialect,
                       std::function<ApiResult<Json>(Json)> handle) {
    routes.push_back(JsonPost(path, dialect, std::move(handle)));
  };
  add("/tokenize", Dialect::kOpenAi, [&state](Json body) { return Tokenize(state, body); });
  add("/detokenize", Dialect::kOpenAi, [&state](Json body) { return Detokenize(state, body); });
  add("/apply-template", Dialect::kOpenAi,
      [&state](Json body) { return RenderTemplate(state, std::move(body)); });
  const auto count = [&](const char* path, Dialect error_form, ChatDialect dialect) {
    add(path, error_form,
        [&state, dialect](Json body) { return CountTokens(state, std::move(body), dialect); });
  };
  count("/v1/messages/count_tokens", Dialect::kAnthropic, ChatDialect::kMessages);
  count("/v1/chat/completions/input_tokens", Dialect::kOpenAi, ChatDialect::kChat);
  count("/chat/completions/input_tokens", Dialect::kOpenAi, ChatDialect::kChat);
  count("/v1/responses/input_tokens", Dialect::kOpenAi, ChatDialect::kResponses);
  count("/responses/input_tokens", Dialect::kOpenAi, ChatDialect::kResponses);
}

}  // namespace skippy::api
