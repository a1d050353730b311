#include "rpc/server.h"

#include <fmt/format.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "rpc/address.h"
#include "rpc/bind_check.h"
#include "rpc/files.h"
#include "rpc/grpc_library.h"
#include "rpc/stage_service.h"
#include "rpc/status.h"

namespace skippy::rpc {
namespace {

constexpr int kPingEveryMs = 20'000;  // to clients: calls of a dead one are given up
constexpr int kPingTimeoutMs = 20'000;
constexpr int kLeastPingGapMs = 1'000;  // from clients; theirs come every few seconds
constexpr int kCallsOfAConnection = 64;

Result<std::shared_ptr<grpc::ServerCredentials>> Credentials(const ServerOptions& options) {
  if (!options.tls) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions tls;
  grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  SKIPPY_TRY(pair.cert_chain, ReadPem(kCertificateFlag, options.tls->certificate));
  SKIPPY_TRY(pair.private_key, ReadPem(kKeyFlag, options.tls->key));
  tls.pem_key_cert_pairs.push_back(std::move(pair));
  return grpc::SslServerCredentials(tls);
}

// After gRPC has refused.
Error CannotListen(const ServerOptions& options, const Address& address) {
  std::string why = "gRPC gives no reason";
  if (const auto reason = WhyNotBound(address.host, address.port))
    why = *reason;
  else if (options.tls)
    why = fmt::format("the files of {} and {} are damaged, or do not belong together",
                      kCertificateFlag, kKeyFlag);
  return {ErrorCode::kInvalidArgument,
          fmt::format("cannot listen on {}: {}", options.address, why)};
}

}  // namespace

struct StageServer::Impl {
  std::unique_ptr<StageService> service;
  std::unique_ptr<grpc::Server> server;
};

StageServer::StageServer() { UseGrpc(); }
StageServer::~StageServer() { Stop(); }

Result<std::uint16_t> StageServer::Start(const ServerOptions& options) {
  if (impl_) return Err(ErrorCode::kInvalidArgument, "the server runs already");
  SKIPPY_TRY(const Address address, ParseAddress(options.address));
  if (address.stage)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}': a range of layers is for clients", options.address));
  if (options.secret.empty() && !IsLoopback(address.host))
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("listening on {} without a secret would let everybody in the network "
                           "use the stage, and take it away from who uses it: give {}, or listen "
                           "on 127.0.0.1",
                           options.address, kServerSecretFlag));
  SKIPPY_TRY(const auto credentials, Credentials(options));
  auto impl = std::make_unique<Impl>();
  SKIPPY_TRY(impl->service, StageService::Make(options.hosts, options.pieces, options.secret));

  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(HostPort(address.host, address.port), credentials, &port);
  builder.RegisterService(impl->service.get());
  builder.SetMaxReceiveMessageSize(static_cast<int>(
      std::min<std::uint64_t>(impl->service->MaxMessageBytes(), std::numeric_limits<int>::max())));
  builder.SetMaxSendMessageSize(-1);
  // A port that somebody else has is an error and not shared with them.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCallsOfAConnection);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingEveryMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kLeastPingGapMs);
  impl->server = builder.BuildAndStart();
  if (!impl->server || port == 0) return tl::unexpected(CannotListen(options, address));
  impl_ = std::move(impl);
  return static_cast<std::uint16_t>(port);
}

void StageServer::Stop() {
  if (!impl_) return;
  impl_->server->Shutdown(std::chrono::system_clock::now());
  impl_->server->Wait();
  impl_.reset();
}

}  // namespace skippy::rpc
