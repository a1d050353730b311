// The paths that generate: chat, completions, responses, messages, infill; and the ones of
// llama-server's that this server does not serve, each with its reason.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "api/chat_request.h"
#include "api/completion_plan.h"
#include "api/completion_run.h"
#include "api/plan_memo.h"
#include "api/routes.h"

namespace skippy::api {
namespace {

Dialect DialectOf(task_response_type type) {
  return type == TASK_RESPONSE_TYPE_ANTHROPIC ? Dialect::kAnthropic : Dialect::kOpenAi;
}

struct Prepared {
  Json data;                         // what MakePlan takes
  std::shared_ptr<const Json> chat;  // see CompletionPlan
};
using Prepare = std::function<ApiResult<Prepared>(Json)>;

ApiResult<CompletionPlan> Parse(ServerState& state, const HttpRequest& request,
                                task_response_type type, const Prepare& prepare) {
  if (state.stopping) return tl::unexpected<ApiError>(Unavailable("the server is shutting down"));
  const bool templated = type != TASK_RESPONSE_TYPE_NONE && type != TASK_RESPONSE_TYPE_OAI_CMPL;
  const bool memo = !(templated && state.template_asks_date);
  const Digest key = PlanMemo::Key(request.path, request.body);
  if (memo) {
    if (std::optional<CompletionPlan> known = state.plans->Find(key)) return std::move(*known);
  }
  API_TRY(Json body, ParseBody(request.body));
  API_TRY(Prepared prepared, prepare(std::move(body)));
  API_TRY(CompletionPlan plan, MakePlan(state, prepared.data, type));
  plan.chat = std::move(prepared.chat);
  if (memo) state.plans->Insert(key, plan, request.body.size());
  return plan;
}

HttpResponse Generate(ServerState& state, const HttpRequest& request, task_response_type type,
                      RequestLog* log, const Prepare& prepare) {
  auto plan = Guarded([&] { return Parse(state, request, type, prepare); });
  if (!plan) {
    if (log != nullptr) log->Append(RejectedLine(request.path, plan.error()));
    return ErrorResponse(plan.error(), DialectOf(type));
  }
  return RunCompletion(state, std::move(*plan), request, {.endpoint = request.path, .log = log});
}

ApiResult<Prepared> PrepareChat(const ServerState& state, Json body, ChatDialect dialect) {
  API_TRY(Json chat, ToChatBody(state, std::move(body), dialect));
  Prepared prepared;
  if (state.settings.idle_prefill && BoolOr(chat, "cache_prompt", true))
    prepared.chat = std::make_shared<const Json>(chat);
  API_TRY(prepared.data, ApplyTemplate(state, std::move(chat)));
  return prepared;
}

// Native and OpenAI completions: the body is the parameters.
ApiResult<Prepared> PrepareCompletion(const ServerState& state, Json body, bool openai) {
  API_RETURN_IF_ERROR(RefuseInternalFields(body));
  API_RETURN_IF_ERROR(CheckFields(body, state.Limits()));
  API_RETURN_IF_ERROR(RefuseInexact(body));
  if (BoolOr(body, "echo", false))
    return BadRequest("'echo' is not supported: only the answer is returned");
  if (Has(body, "logprobs") && !body.at("logprobs").is_number()) {
    return BadRequest("'logprobs' must be an integer here");
  }
  if (openai) {
    for (const char* name : {"suffix", "best_of"}) {
      if (Has(body, name)) return BadRequest(fmt::format("'{}' is not supported", name));
    }
  }
  if (Has(body, "response_format") && !Has(body, "json_schema") && !Has(body, "grammar")) {
    const Json format = body.at("response_format");
    const std::string type = StringOr(format, "type");
    if (type == "json_schema") body["json_schema"] = format.at("json_schema").at("schema");
    if (type == "json_object") {
      body["json_schema"] = Has(format, "schema") ? format.at("schema") : Json{{"type", "object"}};
    }
  }
  NormalizeNumbers(body, state.Limits());
  return Prepared{std::move(body), nullptr};
}

ApiStatus CheckInfillModel(const ServerState& state) {
  std::string missing;
  if (llama_vocab_fim_pre(state.vocab) == LLAMA_TOKEN_NULL) missing += "prefix token is missing. ";
  if (llama_vocab_fim_suf(state.vocab) == LLAMA_TOKEN_NULL) missing += "suffix token is missing. ";
  if (llama_vocab_fim_mid(state.vocab) == LLAMA_TOKEN_NULL) missing += "middle token is missing. ";
  if (!missing.empty()) return NotSupported("Infill is not supported by this model: " + missing);
  return {};
}

ApiStatus CheckInfillText(const Json& body) {
  for (const char* name : {"input_prefix", "input_suffix", "prompt"}) {
    API_RETURN_IF_ERROR(CheckText(StringOr(body, name), name));
  }
  if (!Has(body, "input_extra")) return {};
  for (const Json& chunk : body.at("input_extra")) {
    for (const char* name : {"text", "filename"}) {
      API_RETURN_IF_ERROR(CheckText(StringOr(chunk, name), name));
    }
  }
  return {};
}

ApiStatus CheckInfillBody(const Json& body) {
  for (const char* name : {"input_prefix", "input_suffix"}) {
    if (!Has(body, name) || !body.at(name).is_string()) {
      return BadRequest(fmt::format("\"{}\" is required and must be a string", name));
    }
  }
  if (Has(body, "prompt") && !body.at("prompt").is_string()) {
    return BadRequest("\"prompt\" must be a string");
  }
  if (!Has(body, "input_extra")) return {};
  for (const Json& chunk : body.at("input_extra")) {
    const bool shaped = chunk.is_object() && Has(chunk, "text") && chunk.at("text").is_string() &&
                        (!Has(chunk, "filename") || chunk.at("filename").is_string());
    if (!shaped)
      return BadRequest(
          "\"input_extra\" must be an array of {\"filename\": string, \"text\": string}");
  }
  return {};
}

ApiResult<Prepared> PrepareInfill(const ServerState& state, Json given) {
  API_RETURN_IF_ERROR(CheckInfillModel(state));
  API_TRY(Prepared prepared, PrepareCompletion(state, std::move(given), false));
  Json& body = prepared.data;
  API_RETURN_IF_ERROR(CheckInfillBody(body));
  API_RETURN_IF_ERROR(CheckInfillText(body));
  if (!Has(body, "input_extra")) body["input_extra"] = Json::array();
  const llama_tokens middle = common_tokenize(state.vocab, StringOr(body, "prompt"), false, true);
  const auto context = static_cast<std::int32_t>(state.info.context);
  // What is next to the cursor may take half of the context, so that "input_extra" has room too.
  const std::int32_t near = std::min(2048, context / 2);
  body["prompt"] = format_prompt_infill(
      state.vocab, body.at("input_prefix"), body.at("input_suffix"), body.at("input_extra"),
      /*n_batch=*/near, state.params.n_predict, context, state.settings.spm_infill, middle);
  return prepared;
}

HttpResponse Refuse(const std::string& message) {
  return ErrorResponse(NotSupported(message).value(), Dialect::kOpenAi);
}

void AddRefusals(std::vector<Route>& routes) {
  const auto refuse = [&](std::initializer_list<const char*> paths, const char* message) {
    for (const char* path : paths) {
      routes.push_back({.method = "POST", .path = path, .handle = [message](const HttpRequest&) {
                          return Refuse(message);
                        }});
    }
  };
  refuse({"/embedding", "/embeddings", "/v1/embeddings"},
         "this server generates text; embeddings are not supported");
  refuse({"/rerank", "/reranking", "/v1/rerank", "/v1/reranking"},
         "this server generates text; reranking is not supported");
  refuse({"/v1/audio/transcriptions", "/audio/transcriptions", "/v1/images/generations"},
         "this server serves text only; images and audio are not supported");
  refuse(
      {"/slots/:id_slot"},
      "slots are not saved or restored by hand here: every prefix is cached and restored by itself "
      "(see GET /cache)");
}

}  // namespace

void AddCompletionRoutes(std::vector<Route>& routes, ServerState& state, RequestLog* log) {
  const auto add = [&](std::initializer_list<const char*> paths, task_response_type type,
                       auto prepare) {
    for (const char* path : paths) {
      routes.push_back({.method = "POST",
                        .path = path,
                        .dialect = DialectOf(type),
                        .handle = [&state, log, type, prepare](const HttpRequest& request) {
                          return Generate(state, request, type, log, prepare);
                        }});
    }
  };
  const auto chat = [&state](ChatDialect dialect) {
    return [&state, dialect](Json body) { return PrepareChat(state, std::move(body), dialect); };
  };
  const auto completion = [&state](bool openai) {
    return
        [&state, openai](Json body) { return PrepareCompletion(state, std::move(body), openai); };
  };
  add({"/v1/chat/completions", "/chat/completions"}, TASK_RESPONSE_TYPE_OAI_CHAT,
      chat(ChatDialect::kChat));
  add({"/v1/responses", "/responses"}, TASK_RESPONSE_TYPE_OAI_RESP, chat(ChatDialect::kResponses));
  add({"/v1/messages"}, TASK_RESPONSE_TYPE_ANTHROPIC, chat(ChatDialect::kMessages));
  add({"/v1/completions"}, TASK_RESPONSE_TYPE_OAI_CMPL, completion(true));
  add({"/completion", "/completions"}, TASK_RESPONSE_TYPE_NONE, completion(false));
  add({"/infill"}, TASK_RESPONSE_TYPE_NONE,
      [&state](Json body) { return PrepareInfill(state, std::move(body)); });
  AddRefusals(routes);
}

}  // namespace skippy::api
