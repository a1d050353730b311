// The server's paths and what answers them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/http_types.h"
#include "api/request_log.h"
#include "api/server_state.h"

namespace skippy::api {

struct Route {
  std::string method;  // GET or POST
  std::string path;    // exact, or with one :name segment
  Dialect dialect = Dialect::kOpenAi;
  bool open = false;  // served without an API key
  std::function<HttpResponse(const HttpRequest&)> handle;
};

// `state` and `log` must outlive the routes. Handlers are thread-safe and do not throw.
std::vector<Route> MakeRoutes(ServerState& state, RequestLog* log);

// The parts, one file each.
void AddCompletionRoutes(std::vector<Route>& routes, ServerState& state, RequestLog* log);
void AddModelRoutes(std::vector<Route>& routes, ServerState& state);
void AddTextRoutes(std::vector<Route>& routes, ServerState& state);
void AddCacheRoutes(std::vector<Route>& routes, ServerState& state);
void AddAdapterRoutes(std::vector<Route>& routes, ServerState& state);

// A route whose handler reads a JSON body and gives JSON or an error.
Route JsonPost(std::string path, Dialect dialect, std::function<ApiResult<Json>(Json)> handle);

}  // namespace skippy::api
