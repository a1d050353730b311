// Paths about the server and its model: health, models, props, slots, metrics.
#include <ctime>
#include <optional>
#include <string>
#include <utility>

#include "api/metrics.h"
#include "api/routes.h"
#include "build-info.h"
#include "chat.h"
#include "server-task.h"

namespace skippy::api {
namespace {

std::string FileType(const llama_model* model) {
  char text[128] = {};
  const int length = llama_model_meta_val_str(model, "general.file_type", text, sizeof text);
  return length > 0 ? std::string(text) : std::string();
}

Json StagesJson(const StagedModel& staged) {
  return Json{{"layers", staged.layers}, {"ranges", staged.stages}, {"wire", staged.wire}};
}

Json ModelInfo(const ServerState& state) {
  const llama_model* model = state.model.raw();
  const std::optional<StagedModel>& staged = state.settings.staged;
  Json info{
      {"id", state.model_name},
      {"aliases", state.settings.aliases},
      {"tags", state.settings.tags},
      {"object", "model"},
      {"created", static_cast<std::int64_t>(std::time(nullptr))},
      {"owned_by", "llamacpp"},
      {"meta",
       {
           {"vocab_type", static_cast<int>(llama_vocab_type(state.vocab))},
           {"n_vocab", state.info.vocab},
           {"n_ctx", state.info.context},
           {"n_ctx_train", llama_model_n_ctx_train(model)},
           {"n_embd", llama_model_n_embd(model)},
           {"n_params", staged ? staged->parameters : llama_model_n_params(model)},
           {"size", staged ? staged->bytes : llama_model_size(model)},
           {"ftype", FileType(model)},
       }},
  };
  if (staged) info["meta"]["stages"] = StagesJson(*staged);
  return info;
}

Json Models(const ServerState& state) {
  Json old_form{
      {"name", state.model_name},
      {"model", state.model_name},
      {"modified_at", ""},
      {"size", ""},
      {"digest", state.info.identity.model.Hex()},
      {"type", "model"},
      {"description", ""},
      {"tags", Json::array({""})},
      {"capabilities", Json::array({"completion"})},
      {"parameters", ""},
      {"details",
       {{"parent_model", ""},
        {"format", "gguf"},
        {"family", state.model.architecture()},
        {"families", Json::array({state.model.architecture()})},
        {"parameter_size", ""},
        {"quantization_level", ""}}},
  };
  Json models = Json::array();
  models.push_back(std::move(old_form));
  Json data = Json::array();
  data.push_back(ModelInfo(state));
  return Json{{"models", std::move(models)}, {"object", "list"}, {"data", std::move(data)}};
}

Json Props(const ServerState& state) {
  task_params defaults;
  defaults.sampling = state.params.sampling;
  defaults.n_predict = state.params.n_predict;
  const auto piece = [&](llama_token token) {
    return token == LLAMA_TOKEN_NULL ? std::string()
                                     : common_token_to_piece(state.vocab, token, true);
  };
  Json props{
      {"default_generation_settings",
       {{"params", defaults.to_json(true)}, {"n_ctx", state.info.context}}},
      {"total_slots", state.info.lanes},
      {"model_alias", state.model_name},
      {"model_ftype", FileType(state.model.raw())},
      {"model_path", state.settings.model_path},
      {"modalities", {{"vision", false}, {"video", false}, {"audio", false}}},
      {"endpoint_slots", state.settings.slots},
      {"endpoint_props", state.settings.props},
      {"endpoint_metrics", state.settings.metrics},
      {"ui", false},
      {"chat_template", common_chat_templates_source(state.chat.tmpls.get(), "")},
      {"chat_template_caps", common_chat_templates_get_caps(state.chat.tmpls.get())},
      {"bos_token", piece(llama_vocab_bos(state.vocab))},
      {"eos_token", piece(llama_vocab_eos(state.vocab))},
      {"build_info", std::string(llama_build_info())},
      {"is_sleeping", false},
      {"cache",
       {{"policy", PayloadPolicyName(state.info.policy)},
        {"reason", state.info.policy_reason},
        {"family", state.settings.family},
        {"proof", state.settings.proof},
        {"reuse", ReuseWords(state.info)}}},
  };
  const std::string tool_use = common_chat_templates_source(state.chat.tmpls.get(), "tool_use");
  if (state.settings.jinja && !tool_use.empty()) props["chat_template_tool_use"] = tool_use;
  if (state.settings.staged) props["stages"] = StagesJson(*state.settings.staged);
  return props;
}

Json Slots(ServerState& state, std::size_t& idle) {
  Json slots = Json::array();
  idle = 0;
  for (const engine::LaneStatus& lane : state.engine.Lanes()) {
    if (!lane.busy) ++idle;
    Json next{{"has_next_token", lane.busy},
              {"has_new_line", false},
              {"n_remain", -1},
              {"n_decoded", lane.busy ? lane.generated : 0}};
    Json slot{
        {"id", lane.lane.value},
        {"n_ctx", state.info.context},
        {"speculative", false},
        {"is_processing", lane.busy},
        {"id_task", lane.request.value},
        {"n_prompt_tokens", lane.prompt_tokens},
        {"n_prompt_tokens_processed", lane.prompt_processed},
        {"n_resident_tokens", lane.resident_tokens},
        {"next_token", Json::array()},
    };
    slot["next_token"].push_back(std::move(next));
    slots.push_back(std::move(slot));
  }
  return slots;
}

HttpResponse SlotsResponse(ServerState& state, const HttpRequest& request) {
  if (!state.settings.slots) {
    return ErrorResponse(
        NotSupported("This server does not support slots endpoint. Start it with `--slots`")
            .value(),
        Dialect::kOpenAi);
  }
  std::size_t idle = 0;
  const Json slots = Slots(state, idle);
  if (idle == 0 && !request.param("fail_on_no_slot").empty()) {
    return ErrorResponse(Unavailable("no slot available"), Dialect::kOpenAi);
  }
  return JsonResponse(slots);
}

HttpResponse MetricsResponse(ServerState& state) {
  if (!state.settings.metrics) {
    return ErrorResponse(
        NotSupported("This server does not support metrics endpoint. Start it with `--metrics`")
            .value(),
        Dialect::kOpenAi);
  }
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4";
  response.body = RenderMetrics(state);
  response.headers.emplace_back("Process-Start-Time-Unix", std::to_string(state.started_unix));
  return response;
}

}  // namespace

void AddModelRoutes(std::vector<Route>& routes, ServerState& state) {
  const auto get = [&](const char* path, bool open,
                       std::function<HttpResponse(const HttpRequest&)> handle) {
    routes.push_back({.method = "GET",
                      .path = path,
                      .open = open,
                      .handle = [handle = std::move(handle)](const HttpRequest& request) {
                        const auto done =
                            Guarded([&]() -> ApiResult<HttpResponse> { return handle(request); });
                        return done ? *done : ErrorResponse(done.error(), Dialect::kOpenAi);
                      }});
  };
  const auto health = [](const HttpRequest&) { return JsonResponse(Json{{"status", "ok"}}); };
  get("/health", true, health);
  get("/v1/health", true, health);
  get("/models", false, [&state](const HttpRequest&) { return JsonResponse(Models(state)); });
  get("/v1/models", false, [&state](const HttpRequest&) { return JsonResponse(Models(state)); });
  get("/v1/models/:id", false,
      [&state](const HttpRequest&) { return JsonResponse(ModelInfo(state)); });
  get("/props", false, [&state](const HttpRequest&) { return JsonResponse(Props(state)); });
  get("/slots", false,
      [&state](const HttpRequest& request) { return SlotsResponse(state, request); });
  get("/metrics", false, [&state](const HttpRequest&) { return MetricsResponse(state); });
  routes.push_back(JsonPost("/props", Dialect::kOpenAi, [&state](const Json&) -> ApiResult<Json> {
    if (!state.settings.props) {
      return NotSupported(
          "This server does not support changing global properties. Start it with `--props`");
    }
    return Json{{"success", true}};
  }));
}

}  // namespace skippy::api
