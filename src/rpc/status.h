// Between our errors and gRPC's statuses. Ours cross without loss (their code travels beside the
// status); gRPC's own become what the caller should do about them, in words that name the address.
//
// Threads: pure functions.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <string>
#include <string_view>

#include "skippy/result.h"

namespace skippy::rpc {

// Flags of the two commands, for messages: `skippy stage serve` ...
inline constexpr std::string_view kServerSecretFlag = "--secret-file";
inline constexpr std::string_view kCertificateFlag = "--tls-cert";
inline constexpr std::string_view kKeyFlag = "--tls-key";
// ... and `skippy serve`.
inline constexpr std::string_view kSecretFlag = "--stage-secret-file";
inline constexpr std::string_view kTlsCaFlag = "--stage-ca";

// What a call was, for its error's message.
struct CallFacts {
  const std::string& address;
  std::string_view name;  // "Decode"
  std::chrono::milliseconds timeout;
  bool tls = false;
  bool secret = false;
};

grpc::Status ToStatus(grpc::ServerContext& context, const Error& error);
// Of a caller without the secret.
grpc::Status WrongSecret();

// `status` is not OK.
Error FromStatus(const grpc::ClientContext& context, const grpc::Status& status,
                 const CallFacts& call);

}  // namespace skippy::rpc
