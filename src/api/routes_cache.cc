// The cache's own paths: what it holds, what it would do for a prompt, and emptying it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/chat_request.h"
#include "api/completion_plan.h"
#include "api/metrics.h"
#include "api/routes.h"
#include "runtime/state_keeper.h"

namespace skippy::api {
namespace {

Json CacheStatus(ServerState& state) {
  const CacheStats cache = ReadCacheStats(state);
  const engine::EngineStats engine = state.engine.Stats();
  Json misses = Json::object();
  for (std::size_t reason = 1; reason < cache.misses_by_reason.size(); ++reason) {
    misses[std::string(MissReasonName(static_cast<MissReason>(reason)))] =
        cache.misses_by_reason[reason];
  }
  Json hits = Json::object();
  for (std::size_t kind = 0; kind < std::size(engine.hits_by_kind); ++kind) {
    hits[std::string(engine::HitKindName(static_cast<engine::HitKind>(kind)))] =
        engine.hits_by_kind[kind];
  }
  Json lanes = Json::array();
  for (const engine::LaneStatus& lane : state.engine.Lanes()) {
    lanes.push_back(Json{
        {"lane", lane.lane.value}, {"busy", lane.busy}, {"resident_tokens", lane.resident_tokens}});
  }
  Json components{
      {"kv", cache.component_bytes[static_cast<std::size_t>(Component::kKv)]},
      {"window", cache.component_bytes[static_cast<std::size_t>(Component::kWindow)]},
      {"snapshots", cache.component_bytes[static_cast<std::size_t>(Component::kSnapshot)]},
      {"logits", cache.component_bytes[static_cast<std::size_t>(Component::kLogits)]},
  };
  const bool on = cache.latched.empty() && state.info.policy != PayloadPolicy::kOff;
  return Json{
      {"model", state.model_name},
      {"enabled", on},
      {"off_reason", !cache.latched.empty() ? cache.latched : state.info.policy_reason},
      {"policy", PayloadPolicyName(state.info.policy)},
      {"proof", state.settings.proof},
      {"reuse", ReuseWords(state.info)},
      {"tiers",
       {{"device", {{"lanes", std::move(lanes)}, {"context", state.info.context}}},
        {"host",
         {{"physical_bytes", cache.physical_bytes},
          {"logical_bytes", cache.logical_bytes},
          {"max_bytes", cache.max_bytes},
          {"bytes_by_component", std::move(components)},
          {"entries", cache.entries},
          {"blocks", cache.blocks},
          {"snapshots", cache.snapshots},
          {"decoded_results", cache.logits},
          {"known_tokens", cache.known_tokens}}}}},
      {"requests_by_hit_kind", std::move(hits)},
      {"prompt_tokens",
       {{"total", engine.prompt_tokens},
        {"cached_device", engine.cached_hot_tokens},
        {"cached_host", engine.cached_warm_tokens},
        {"cached_decoded_result", engine.cached_decoded_tokens},
        {"evaluated", engine.evaluated_tokens}}},
      {"lookups", cache.lookups},
      {"hits", cache.hits},
      {"misses_by_reason", std::move(misses)},
      {"evicted_tokens", cache.evicted_tokens},
      {"evicted_bytes", cache.evicted_bytes},
      {"records", cache.records},
      {"records_refused", cache.records_refused_too_large + cache.records_refused_no_room},
  };
}

// The request's own text around a position; tokens may end within a character, so it is made
// printable by the JSON writer.
Json TextAround(const ServerState& state, const std::vector<Token>& tokens, Pos at) {
  constexpr Pos kAround = 12;
  const auto text = [&](Pos begin, Pos end) {
    return tokens_to_str(state.vocab, llama_tokens(tokens.begin() + begin, tokens.begin() + end));
  };
  const auto size = static_cast<Pos>(tokens.size());
  const Pos middle = std::min(at, size);
  return Json{{"before", text(middle - std::min(middle, kAround), middle)},
              {"after", text(middle, std::min(size, middle + kAround))}};
}

std::string Explain(const engine::DryRun& dry, std::size_t prompt_tokens) {
  switch (dry.reason) {
    case MissReason::kNone:
      return dry.boundary >= prompt_tokens
                 ? "an exact repeat: answered without evaluating the prompt"
                 : "everything usable is reused";
    case MissReason::kNeverSeen: return "nothing of this prompt is known in this namespace";
    case MissReason::kDiverged:
      return fmt::format("the known text goes on differently from token {}", dry.first_different);
    case MissReason::kEvicted: return "more of it was known and has been evicted";
    case MissReason::kNoBoundaryState:
      return "the text is known further, but no state is stored there to go on from";
    case MissReason::kBelowMin: return "the common prefix is too short to be worth restoring";
    case MissReason::kDisabled: return "the cache is off, or the request has cache_prompt: false";
    case MissReason::kCorrupt: return "damaged data was found and dropped";
  }
  return "";
}

ApiResult<Json> Lookup(ServerState& state, Json body, const std::string& api_key) {
  Json data;
  const bool cached = BoolOr(body, "cache_prompt", true);
  if (Has(body, "messages") || Has(body, "input")) {
    const ChatDialect dialect = Has(body, "input") ? ChatDialect::kResponses : ChatDialect::kChat;
    API_TRY(Json chat, ToChatBody(state, std::move(body), dialect));
    API_TRY(data, ApplyTemplate(state, std::move(chat)));
  } else {
    API_RETURN_IF_ERROR(RefuseInternalFields(body));
    API_RETURN_IF_ERROR(CheckFields(body, state.Limits()));
    NormalizeNumbers(body, state.Limits());
    data = std::move(body);
  }
  API_TRY(const CompletionPlan plan, MakePlan(state, data, TASK_RESPONSE_TYPE_NONE));
  if (plan.prompts.size() != 1) return BadRequest("one prompt at a time");
  const std::vector<Token>& tokens = plan.prompts.front().tokens;
  const std::string tenant = TenantSalt(api_key, plan.cache_salt, state.settings.tenants);
  auto dry =
      state.engine.Peek(tokens, tenant, plan.adapters ? *plan.adapters : state.DefaultAdapters());
  if (dry && !cached) *dry = {.reason = MissReason::kDisabled};
  if (!dry) return tl::unexpected<ApiError>(FromError(dry.error()));
  return Json{
      {"prompt_tokens", tokens.size()},
      {"cached_tokens", dry->boundary},
      {"evaluated_tokens", tokens.size() - std::min<std::size_t>(dry->boundary, tokens.size())},
      {"hit_kind", engine::HitKindName(dry->kind)},
      {"miss_reason", MissReasonName(dry->reason)},
      {"first_different", dry->first_different},
      {"explanation", Explain(*dry, tokens.size())},
      {"text_at_first_different", TextAround(state, tokens, dry->first_different)},
  };
}

ApiResult<HttpResponse> Reset(ServerState& state) {
  Status forgotten;
  state.engine.Call([&forgotten](PrefixCache& cache, runtime::Runtime& runtime) {
    cache.Clear();
    if (auto* keeper = dynamic_cast<runtime::StateKeeper*>(&runtime)) forgotten = keeper->Forget();
  });
  state.engine.ForgetIdleLanes();
  if (!forgotten) return tl::unexpected<ApiError>(FromError(forgotten.error()));
  return JsonResponse(Json{{"success", true}});
}

}  // namespace

void AddCacheRoutes(std::vector<Route>& routes, ServerState& state) {
  const auto guarded = [](std::function<ApiResult<HttpResponse>(const HttpRequest&)> handle) {
    return [handle = std::move(handle)](const HttpRequest& request) {
      const auto done = Guarded([&] { return handle(request); });
      return done ? *done : ErrorResponse(done.error(), Dialect::kOpenAi);
    };
  };
  routes.push_back({.method = "GET",
                    .path = "/cache",
                    .handle = guarded([&state](const HttpRequest&) {
                      return ApiResult<HttpResponse>(JsonResponse(CacheStatus(state)));
                    })});
  routes.push_back({.method = "POST",
                    .path = "/reset_prefix_cache",
                    .handle = guarded([&state](const HttpRequest&) { return Reset(state); })});
  routes.push_back(
      {.method = "POST",
       .path = "/cache/lookup",
       .handle = guarded([&state](const HttpRequest& request) -> ApiResult<HttpResponse> {
         API_TRY(Json body, ParseBody(request.body));
         API_TRY(const Json answer, Lookup(state, std::move(body), request.api_key));
         return JsonResponse(answer);
       })});
}

}  // namespace skippy::api
