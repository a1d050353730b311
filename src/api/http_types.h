// Requests and responses as handlers see them, free of the HTTP library.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "api/errors.h"
#include "api/request_fields.h"

namespace skippy::api {

struct HttpRequest {
  std::string method;
  std::string path;
  std::string body;
  std::string api_key;  // checked; empty when the server has no keys
  std::function<std::string(const std::string&)> param;  // query parameter, "" when absent
  std::function<bool()> closed;                          // the client has gone; cheap
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  // Set for streams: appends the next bytes to its argument, false when they are the last.
  std::function<bool(std::string&)> next;
};

HttpResponse JsonResponse(const Json& value);
HttpResponse ErrorResponse(const ApiError& error, Dialect dialect);

}  // namespace skippy::api
