#include "api/routes.h"

#include <utility>

namespace skippy::api {

Route JsonPost(std::string path, Dialect dialect, std::function<ApiResult<Json>(Json)> handle) {
  return Route{.method = "POST",
               .path = std::move(path),
               .dialect = dialect,
               .handle = [dialect, handle = std::move(handle)](const HttpRequest& request) {
                 const auto answer = Guarded([&]() -> ApiResult<Json> {
                   API_TRY(Json body, ParseBody(request.body));
                   return handle(std::move(body));
                 });
                 return answer ? JsonResponse(*answer) : ErrorResponse(answer.error(), dialect);
               }};
}

std::vector<Route> MakeRoutes(ServerState& state, RequestLog* log) {
  std::vector<Route> routes;
  AddCompletionRoutes(routes, state, log);
  AddModelRoutes(routes, state);
  AddTextRoutes(routes, state);
  AddCacheRoutes(routes, state);
  AddAdapterRoutes(routes, state);
  return routes;
}

}  // namespace skippy::api
