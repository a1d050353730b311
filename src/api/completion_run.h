// Runs a plan: hands its requests to the engine, waits, formats. Called on an HTTP thread.
#pragma once

#include <string>

#include "api/completion_plan.h"
#include "api/http_types.h"
#include "api/request_log.h"

namespace skippy::api {

struct RunOptions {
  std::string endpoint;       // for the log
  RequestLog* log = nullptr;  // null: no log
};

// Blocks until the answer (or, streaming, its first part) is there. When the client goes away the
// engine is told within kPoll. Errors before the first byte are HTTP errors; later ones are events
// of the stream.
HttpResponse RunCompletion(ServerState& state, CompletionPlan plan, const HttpRequest& request,
                           const RunOptions& options);

}  // namespace skippy::api
