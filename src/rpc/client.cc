#include "rpc/client.h"

#include <fmt/format.h>

#include "rpc/address.h"
#include "rpc/connection.h"
#include "rpc/grpc_library.h"
#include "rpc/messages.h"
#include "rpc/remote_link.h"
#include "rpc/remote_pieces.h"

namespace skippy::rpc {

namespace {

Result<std::shared_ptr<Connection>> Open(const Address& where, const ClientOptions& options) {
  UseGrpc();
  if (where.port == 0)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("{}: nobody listens on port 0", HostPort(where.host, where.port)));
  return Connection::Make(HostPort(where.host, where.port), options);
}

}  // namespace

Result<std::vector<std::unique_ptr<pipeline::StageLink>>> Connect(std::string_view address,
                                                                  const ClientOptions& options) {
  SKIPPY_TRY(const Address where, ParseAddress(address));
  SKIPPY_TRY(const std::shared_ptr<Connection> connection, Open(where, options));
  const std::string& server = connection->server();
  SKIPPY_TRY(const v1::ListResponse response,
             connection->Call<v1::ListResponse>(server, "List", &v1::Stage::Stub::List,
                                                v1::ListRequest(), options.connect_timeout));
  SKIPPY_RETURN_IF_ERROR(CheckSchema(server, response.schema_version()));
  std::vector<std::unique_ptr<pipeline::StageLink>> links;
  std::string there;
  for (const v1::Package& package : response.stages()) {
    const Result<pipeline::LayerRange> layers = FromMessage(package.layers());
    if (!layers)
      return Err(ErrorCode::kInternal,
                 fmt::format("{}: malformed answer: {}", server, layers.error().message));
    there += (there.empty() ? "" : ", ") + ToString(*layers);
    if (!where.stage || *where.stage == *layers)
      links.push_back(std::make_unique<RemoteLink>(connection, *layers));
  }
  if (links.empty())
    return Err(ErrorCode::kNotFound, fmt::format("{}: there are the stages {}", address, there));
  return links;
}

Result<std::unique_ptr<pipeline::PieceSource>> PiecesAt(std::string_view address,
                                                        const ClientOptions& options) {
  SKIPPY_TRY(const Address where, ParseAddress(address));
  if (where.stage)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}': pieces are the whole process's; leave out the layers", address));
  SKIPPY_TRY(std::shared_ptr<Connection> connection, Open(where, options));
  return std::make_unique<RemotePieces>(std::move(connection));
}

}  // namespace skippy::rpc
