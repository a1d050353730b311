// LoRA adapters: what is loaded, and the scales of requests that name none themselves.
#include <fmt/format.h>

#include <cmath>

#include "api/body_scan.h"
#include "api/routes.h"

namespace skippy::api {
namespace {

Json ListAdapters(const ServerState& state) {
  Json list = Json::array();
  const std::vector<float> scales = state.AdapterScales();
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const llama::Model::Adapter& adapter = state.model.adapters()[i];
    list.push_back(Json{{"id", i},
                        {"path", adapter.path},
                        {"scale", scales[i]},
                        {"digest", adapter.content.ShortHex()}});
  }
  return list;
}

// As in llama-server: adapters that the list does not name get scale 0.
ApiResult<Json> SetScales(ServerState& state, const std::string& body) {
  API_RETURN_IF_ERROR(ScanJson(body));
  const Json list = Json::parse(body);
  if (!list.is_array()) return BadRequest("Request body must be an array");
  std::vector<float> scales(state.model.adapters().size(), 0.0F);
  for (const Json& entry : list) {
    const bool shaped = entry.is_object() && Has(entry, "id") &&
                        entry.at("id").is_number_integer() && Has(entry, "scale") &&
                        entry.at("scale").is_number() &&
                        std::isfinite(entry.at("scale").get<float>());
    if (!shaped) return BadRequest("each element needs an integer 'id' and a number 'scale'");
    const double id = entry.at("id").get<double>();
    if (id < 0 || id >= static_cast<double>(scales.size())) {
      return BadRequest(fmt::format("adapter {:.0f} does not exist; {} adapter(s) are loaded", id,
                                    scales.size()));
    }
    scales[static_cast<std::size_t>(id)] = entry.at("scale").get<float>();
  }
  state.SetAdapterScales(std::move(scales));
  return Json{{"success", true}};
}

}  // namespace

void AddAdapterRoutes(std::vector<Route>& routes, ServerState& state) {
  routes.push_back(
      {.method = "GET", .path = "/lora-adapters", .handle = [&state](const HttpRequest&) {
         return JsonResponse(ListAdapters(state));
       }});
  routes.push_back(
      {.method = "POST", .path = "/lora-adapters", .handle = [&state](const HttpRequest& request) {
         const auto done = Guarded([&] { return SetScales(state, request.body); });
         return done ? JsonResponse(*done) : ErrorResponse(done.error(), Dialect::kOpenAi);
       }});
}

}  // namespace skippy::api
