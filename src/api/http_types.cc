#include "api/http_types.h"

namespace skippy::api {

HttpResponse JsonResponse(const Json& value) {
  HttpResponse response;
  response.body = value.dump_safe();
  return response;
}

HttpResponse ErrorResponse(const ApiError& error, Dialect dialect) {
  HttpResponse response;
  response.status = error.status;
  response.body = ErrorBody(error, dialect);
  if (error.status == 429 || error.status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

}  // namespace skippy::api
