// StageService: carries calls from the wire to StageHosts. Everything that comes in is checked
// here: the secret first, then sizes and ranges; lanes and sessions are the host's to check.
//
// Threads: thread-safe; gRPC calls it from as many as there are calls.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>
#include <grpcpp/support/sync_stream.h>

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "pipeline/stage_host.h"
#include "skippy/result.h"
#include "stage.grpc.pb.h"

namespace skippy::rpc {

namespace v1 = ::skippy::stage::v1;

class StageService final : public v1::Stage::Service {
 public:
  // Begins a session with each host.
  static Result<std::unique_ptr<StageService>> Make(std::span<pipeline::StageHost* const> hosts,
                                                    const pipeline::PieceStore* pieces,
                                                    const std::string& secret);

  // Of one message: what the largest chunk needs, with room.
  std::uint64_t MaxMessageBytes() const;

  grpc::Status List(grpc::ServerContext* context, const v1::ListRequest* request,
                    v1::ListResponse* response) override;
  grpc::Status Attach(grpc::ServerContext* context, const v1::AttachRequest* request,
                      v1::AttachResponse* response) override;
  grpc::Status Decode(grpc::ServerContext* context, const v1::DecodeRequest* request,
                      v1::DecodeResponse* response) override;
  grpc::Status Clear(grpc::ServerContext* context, const v1::ClearRequest* request,
                     v1::ClearResponse* response) override;
  grpc::Status Truncate(grpc::ServerContext* context, const v1::TruncateRequest* request,
                        v1::TruncateResponse* response) override;
  grpc::Status Copy(grpc::ServerContext* context, const v1::CopyRequest* request,
                    v1::CopyResponse* response) override;
  grpc::Status Keep(grpc::ServerContext* context, const v1::KeepRequest* request,
                    v1::KeepResponse* response) override;
  grpc::Status Held(grpc::ServerContext* context, const v1::HeldRequest* request,
                    v1::HeldResponse* response) override;
  grpc::Status Find(grpc::ServerContext* context, const v1::FindRequest* request,
                    v1::FindResponse* response) override;
  grpc::Status Forget(grpc::ServerContext* context, const v1::ForgetRequest* request,
                      v1::ForgetResponse* response) override;
  grpc::Status Restore(grpc::ServerContext* context, const v1::RestoreRequest* request,
                       v1::RestoreResponse* response) override;
  grpc::Status Fetch(grpc::ServerContext* context, const v1::FetchRequest* request,
                     grpc::ServerWriter<v1::FetchResponse>* writer) override;

 private:
  struct Served {
    pipeline::StageHost* host = nullptr;
    std::uint32_t input_width = 0;
    std::uint32_t output_width = 0;
    std::unique_ptr<std::mutex> turn;  // is held by the call that is carried out
  };

  StageService(const pipeline::PieceStore* pieces, const std::string& secret);
  // nullptr: not here.
  const Served* Stage(const v1::LayerRange& layers) const;
  std::string Names() const;
  bool Authorised(const grpc::ServerContext& context) const;

  // body() for who has the secret.
  template <class Body>
  grpc::Status Answer(grpc::ServerContext* context, Body body) const;
  // body(served, ticket), within the session that the request's head names.
  template <class Request, class Body>
  grpc::Status AnswerCall(grpc::ServerContext* context, const Request& request, Body body) const;
  // The host's answer, when this call's turn has come and somebody still waits for it.
  template <class Ask>
  static auto InTurn(const grpc::ServerContext& context, const Served& served, Ask ask)
      -> decltype(ask());

  const pipeline::PieceStore* const pieces_;  // nullptr: none
  const std::string expected_;                // authorization of a call; empty: none is needed
  std::vector<Served> served_;
};

}  // namespace skippy::rpc
