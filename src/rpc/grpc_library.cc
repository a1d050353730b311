#include "rpc/grpc_library.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>

#include <cstdlib>
#include <mutex>

namespace skippy::rpc {

void UseGrpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    // For ever: when its last user goes, gRPC shuts itself down and may wait ten seconds for a
    // thread of its own that sleeps.
    grpc_init();
    // It writes to stderr what our errors say better, and what is none (a stage that is away).
    if (std::getenv("GRPC_VERBOSITY") != nullptr) return;
    gpr_set_log_function([](gpr_log_func_args*) {});
    google::protobuf::SetLogHandler(nullptr);
  });
}

}  // namespace skippy::rpc
