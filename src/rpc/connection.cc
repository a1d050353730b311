#include "rpc/connection.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "rpc/files.h"
#include "rpc/secret.h"

namespace skippy::rpc {
namespace {

constexpr std::chrono::milliseconds kPingEvery{4'000};
constexpr std::chrono::milliseconds kPingTimeout = kDeadAfter - kPingEvery;
constexpr std::chrono::milliseconds kFirstBackoff{100};
constexpr std::chrono::milliseconds kLongestBackoff{1'000};

int Milliseconds(std::chrono::milliseconds duration) {
  return static_cast<int>(
      std::clamp<std::int64_t>(duration.count(), 1, std::numeric_limits<int>::max()));
}

}  // namespace

Result<std::shared_ptr<Connection>> Connection::Make(std::string server,
                                                     const ClientOptions& options) {
  SKIPPY_RETURN_IF_ERROR(CheckSecret(options.secret));
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (!options.tls_ca_file.empty()) {
    grpc::SslCredentialsOptions tls;
    SKIPPY_TRY(tls.pem_root_certs, ReadPem(kTlsCaFlag, options.tls_ca_file));
    credentials = grpc::SslCredentials(tls);
  }
  return std::shared_ptr<Connection>(
      new Connection(std::move(server), options, std::move(credentials)));
}

Connection::Connection(std::string server, const ClientOptions& options,
                       std::shared_ptr<grpc::ChannelCredentials> credentials)
    : server_(std::move(server)), options_(options), credentials_(std::move(credentials)) {
  Open();
}

void Connection::Open() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(kPingEvery));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(kPingTimeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // This is how long one attempt may take, whatever its name says.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, Milliseconds(options_.connect_timeout));
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, Milliseconds(kFirstBackoff));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, Milliseconds(kLongestBackoff));
  // Stages are neighbours: not through the proxy that leads out of the network.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A connection, and what is remembered of its failures, is this channel's alone.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  channel_ = grpc::CreateCustomChannel("dns:///" + server_, credentials_, arguments);
  stub_ = v1::Stage::NewStub(channel_);
}

void Connection::Prepare(grpc::ClientContext& context, std::chrono::milliseconds timeout) const {
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  if (!options_.secret.empty()) context.AddMetadata(kSecretKey, Bearer(options_.secret));
}

Error Connection::Failed(const grpc::ClientContext& context, const grpc::Status& status,
                         const std::string& address, std::string_view name,
                         std::chrono::milliseconds timeout) const {
  return FromStatus(
      context, status,
      {address, name, timeout, !options_.tls_ca_file.empty(), !options_.secret.empty()});
}

std::shared_ptr<v1::Stage::Stub> Connection::Stub() {
  const std::lock_guard lock(mutex_);
  return stub_;
}

void Connection::TryAfresh() {
  const std::lock_guard lock(mutex_);
  if (channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_TRANSIENT_FAILURE) Open();
}

}  // namespace skippy::rpc
