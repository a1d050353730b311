// Connection: the gRPC channel to one server, for all links to its stages.
//
// Threads: thread-safe.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "rpc/client.h"
#include "rpc/status.h"
#include "skippy/result.h"
#include "stage.grpc.pb.h"

namespace skippy::rpc {

namespace v1 = ::skippy::stage::v1;

class Connection {
 public:
  // `server`: "host:port".
  static Result<std::shared_ptr<Connection>> Make(std::string server, const ClientOptions& options);

  const std::string& server() const { return server_; }
  const ClientOptions& options() const { return options_; }

  template <class Request, class Response>
  using Method = grpc::Status (v1::Stage::Stub::*)(grpc::ClientContext*, const Request&, Response*);

  // `address`: what an error's message names.
  template <class Response, class Request>
  Result<Response> Call(const std::string& address, std::string_view name,
                        Method<Request, Response> method, const Request& request,
                        std::chrono::milliseconds timeout) {
    grpc::ClientContext context;
    Prepare(context, timeout);
    const Hangup::Call running(options_.hangup.get(), context);
    Response response;
    const grpc::Status status = (Stub().get()->*method)(&context, request, &response);
    if (!status.ok()) return tl::unexpected(Failed(context, status, address, name, timeout));
    return response;
  }

  template <class Request, class Response>
  using StreamMethod = std::unique_ptr<grpc::ClientReader<Response>> (v1::Stage::Stub::*)(
      grpc::ClientContext*, const Request&);

  // take(response) -> Status for each answer; its error ends the call and is returned.
  template <class Request, class Response, class Take>
  Status CallForMany(std::string_view name, StreamMethod<Request, Response> method,
                     const Request& request, std::chrono::milliseconds timeout, Take take) {
    grpc::ClientContext context;
    Prepare(context, timeout);
    const Hangup::Call running(options_.hangup.get(), context);
    const auto stub = Stub();
    const auto reader = (stub.get()->*method)(&context, request);
    Status taken;
    for (Response response; taken && reader->Read(&response);) taken = take(response);
    if (!taken) context.TryCancel();
    const grpc::Status status = reader->Finish();
    if (!taken) return taken;
    if (!status.ok()) return tl::unexpected(Failed(context, status, server_, name, timeout));
    return {};
  }

  // After an attempt to connect has failed, gRPC refuses calls for a while without trying. This
  // makes the next call try at once.
  void TryAfresh();

 private:
  Connection(std::string server, const ClientOptions& options,
             std::shared_ptr<grpc::ChannelCredentials> credentials);
  Error Failed(const grpc::ClientContext& context, const grpc::Status& status,
               const std::string& address, std::string_view name,
               std::chrono::milliseconds timeout) const;
  void Prepare(grpc::ClientContext& context, std::chrono::milliseconds timeout) const;
  std::shared_ptr<v1::Stage::Stub> Stub();
  void Open();  // mutex_ is held, or nobody knows the object yet

  const std::string server_;
  const ClientOptions options_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  std::mutex mutex_;
  std::shared_ptr<grpc::Channel> channel_;
  std::shared_ptr<v1::Stage::Stub> stub_;
};

}  // namespace skippy::rpc
