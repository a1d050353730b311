#include "rpc/stage_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "rpc/messages.h"
#include "rpc/secret.h"
#include "rpc/status.h"

namespace skippy::rpc {
namespace {

// Lists of pieces grow with the context and not with the chunk; about 50 bytes a piece.
constexpr std::uint64_t kLeastMessageBytes = std::uint64_t{8} << 20U;
constexpr std::uint64_t kRoom = std::uint64_t{64} << 10U;  // for what is around the rows

// Pieces have one position at least, in each of two components, and there is one snapshot.
std::uint64_t MostPieces(const pipeline::StageHost& host) {
  return std::uint64_t{2} * host.info().context + 1;
}

Status CheckCount(std::string_view what, int count, std::uint64_t most) {
  if (static_cast<std::uint64_t>(count) <= most) return {};
  return Err(ErrorCode::kInvalidArgument, fmt::format("{} {}; at most {}", count, what, most));
}

Result<std::vector<pipeline::PieceSlice>> Slices(
    const google::protobuf::RepeatedPtrField<v1::PieceSlice>& messages, std::uint32_t context) {
  SKIPPY_RETURN_IF_ERROR(CheckCount("pieces", messages.size(), context));
  std::vector<pipeline::PieceSlice> slices;
  for (const v1::PieceSlice& message : messages) {
    SKIPPY_TRY(slices.emplace_back(), FromMessage(message, context));
  }
  return slices;
}

Result<pipeline::StageRestore> RestoreOf(const v1::RestoreRequest& request, std::uint32_t context) {
  pipeline::StageRestore restore;
  restore.lane = SeqId{request.lane()};
  restore.end = request.end();
  SKIPPY_TRY(restore.kv, Slices(request.kv(), context));
  SKIPPY_TRY(restore.window, Slices(request.window(), context));
  if (request.has_snapshot()) {
    SKIPPY_TRY(restore.snapshot, FromMessage(request.snapshot(), context));
  }
  return restore;
}

}  // namespace

Result<std::unique_ptr<StageService>> StageService::Make(
    std::span<pipeline::StageHost* const> hosts, const pipeline::PieceStore* pieces,
    const std::string& secret) {
  SKIPPY_RETURN_IF_ERROR(CheckSecret(secret));
  std::unique_ptr<StageService> service(new StageService(pieces, secret));
  for (pipeline::StageHost* const host : hosts) {
    if (service->Stage(ToMessage(host->package().layers)) != nullptr)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("two stages of layers {} at one address: serve them at two",
                             ToString(host->package().layers)));
    SKIPPY_TRY(const pipeline::StageDescription description, host->Attach());
    service->served_.push_back(
        {host, description.input_width, description.output_width, std::make_unique<std::mutex>()});
  }
  if (service->served_.empty()) return Err(ErrorCode::kInvalidArgument, "no stage to serve");
  return service;
}

StageService::StageService(const pipeline::PieceStore* pieces, const std::string& secret)
    : pieces_(pieces), expected_(secret.empty() ? std::string() : Bearer(secret)) {}

std::uint64_t StageService::MaxMessageBytes() const {
  std::uint64_t most = kLeastMessageBytes;
  for (const Served& served : served_)
    most = std::max(
        most,
        std::uint64_t{served.host->info().chunk} * served.input_width * sizeof(float) + kRoom);
  return most;
}

const StageService::Served* StageService::Stage(const v1::LayerRange& layers) const {
  for (const Served& served : served_) {
    const pipeline::LayerRange here = served.host->package().layers;
    if (here.begin == layers.begin() && here.end == layers.end()) return &served;
  }
  return nullptr;
}

std::string StageService::Names() const {
  std::string names;
  for (const Served& served : served_)
    names += (names.empty() ? "" : ", ") + ToString(served.host->package().layers);
  return names;
}

bool StageService::Authorised(const grpc::ServerContext& context) const {
  if (expected_.empty()) return true;
  const auto& metadata = context.client_metadata();
  const auto given = metadata.find(kSecretKey);
  return given != metadata.end() &&
         SameSecret(expected_, std::string_view(given->second.data(), given->second.size()));
}

template <class Body>
grpc::Status StageService::Answer(grpc::ServerContext* context, Body body) const {
  if (!Authorised(*context)) return WrongSecret();
  const Status status = body();
  return status ? grpc::Status::OK : ToStatus(*context, status.error());
}

template <class Request, class Body>
grpc::Status StageService::AnswerCall(grpc::ServerContext* context, const Request& request,
                                      Body body) const {
  return Answer(context, [&]() -> Status {
    const v1::Call& call = request.call();
    const Served* const served = Stage(call.layers());
    // Who calls had a session with a stage that was here before: as with a stage that restarted.
    if (served == nullptr)
      return Err(ErrorCode::kUnavailable,
                 fmt::format("stage {}..{} is not here any more; there are the stages {}",
                             call.layers().begin(), call.layers().end(), Names()));
    return body(*served, pipeline::CallTicket{call.session(), call.number()});
  });
}

template <class Ask>
auto StageService::InTurn(const grpc::ServerContext& context, const Served& served, Ask ask)
    -> decltype(ask()) {
  const std::lock_guard lock(*served.turn);
  if (context.IsCancelled())
    return Err(ErrorCode::kCancelled, "the caller was gone before its turn came");
  return ask();
}

grpc::Status StageService::List(grpc::ServerContext* context, const v1::ListRequest*,
                                v1::ListResponse* response) {
  return Answer(context, [&]() -> Status {
    response->set_schema_version(kSchemaVersion);
    for (const Served& served : served_)
      *response->add_stages() = ToMessage(served.host->package());
    return {};
  });
}

grpc::Status StageService::Attach(grpc::ServerContext* context, const v1::AttachRequest* request,
                                  v1::AttachResponse* response) {
  return Answer(context, [&]() -> Status {
    SKIPPY_RETURN_IF_ERROR(CheckSchema("the coordinator", request->schema_version()));
    const Served* const served = Stage(request->layers());
    if (served == nullptr)
      return Err(ErrorCode::kNotFound,
                 fmt::format("no stage {}..{}; there are the stages {}", request->layers().begin(),
                             request->layers().end(), Names()));
    SKIPPY_TRY(const pipeline::StageDescription description,
               InTurn(*context, *served, [&] { return served->host->Attach(); }));
    response->set_schema_version(kSchemaVersion);
    *response->mutable_stage() = ToMessage(description);
    return {};
  });
}

grpc::Status StageService::Decode(grpc::ServerContext* context, const v1::DecodeRequest* request,
                                  v1::DecodeResponse* response) {
  return AnswerCall(
      context, *request, [&](const Served& served, pipeline::CallTicket ticket) -> Status {
        const runtime::RuntimeInfo& info = served.host->info();
        SKIPPY_TRY(const pipeline::WireFormat wire, FromMessage(request->wire()));
        SKIPPY_RETURN_IF_ERROR(CheckCount("items", request->items_size(), info.lanes));
        if (request->items().empty()) return Err(ErrorCode::kInvalidArgument, "nothing to decode");
        std::vector<std::vector<float>> rows;
        std::vector<runtime::RowsItem> items;
        for (const v1::DecodeRequest::Item& item : request->items()) {
          SKIPPY_TRY(rows.emplace_back(), UnpackRows(wire, item.rows(), served.input_width));
          const std::uint64_t count = rows.back().size() / served.input_width;
          if (count == 0 || count > info.chunk || item.pos() + count > info.context)
            return Err(ErrorCode::kInvalidArgument,
                       fmt::format("{} rows at position {}: the chunk is {}, the context {}", count,
                                   item.pos(), info.chunk, info.context));
          items.push_back({SeqId{item.lane()}, item.pos(), rows.back(), item.want_logits()});
        }
        SKIPPY_TRY(const pipeline::StageOutput output,
                   InTurn(*context, served, [&] { return served.host->Decode(ticket, items); }));
        if (served.output_width > 0) {
          SKIPPY_TRY(*response->mutable_rows(), PackRows(wire, output.rows, served.output_width));
        }
        for (const std::vector<float>& logits : output.logits)
          response->add_logits(PackLogits(logits));
        for (const pipeline::LanePlace place : output.lanes)
          *response->add_lanes() = ToMessage(place);
        return {};
      });
}

grpc::Status StageService::Clear(grpc::ServerContext* context, const v1::ClearRequest* request,
                                 v1::ClearResponse*) {
  return AnswerCall(context, *request, [&](const Served& served, pipeline::CallTicket ticket) {
    return InTurn(*context, served,
                  [&] { return served.host->Clear(ticket, SeqId{request->lane()}); });
  });
}

grpc::Status StageService::Truncate(grpc::ServerContext* context,
                                    const v1::TruncateRequest* request,
                                    v1::TruncateResponse* response) {
  return AnswerCall(
      context, *request, [&](const Served& served, pipeline::CallTicket ticket) -> Status {
        SKIPPY_TRY(const pipeline::LanePlace place, InTurn(*context, served, [&] {
                     return served.host->Truncate(ticket, SeqId{request->lane()}, request->end());
                   }));
        *response->mutable_lane() = ToMessage(place);
        return {};
      });
}

grpc::Status StageService::Copy(grpc::ServerContext* context, const v1::CopyRequest* request,
                                v1::CopyResponse* response) {
  return AnswerCall(
      context, *request, [&](const Served& served, pipeline::CallTicket ticket) -> Status {
        SKIPPY_TRY(const pipeline::LanePlace place, InTurn(*context, served, [&] {
                     return served.host->Copy(ticket, SeqId{request->from()}, SeqId{request->to()});
                   }));
        *response->mutable_lane() = ToMessage(place);
        return {};
      });
}

grpc::Status StageService::Keep(grpc::ServerContext* context, const v1::KeepRequest* request,
                                v1::KeepResponse*) {
  return AnswerCall(
      context, *request, [&](const Served& served, pipeline::CallTicket ticket) -> Status {
        SKIPPY_TRY(const pipeline::PieceKey piece,
                   FromMessage(request->piece(), served.host->info().context));
        return InTurn(*context, served,
                      [&] { return served.host->Keep(ticket, SeqId{request->lane()}, piece); });
      });
}

grpc::Status StageService::Forget(grpc::ServerContext* context, const v1::ForgetRequest* request,
                                  v1::ForgetResponse*) {
  return AnswerCall(context, *request, [&](const Served& served, pipeline::CallTicket ticket) {
    return InTurn(*context, served, [&] { return served.host->Forget(ticket); });
  });
}

grpc::Status StageService::Held(grpc::ServerContext* context, const v1::HeldRequest* request,
                                v1::HeldResponse* response) {
  return AnswerCall(
      context, *request, [&](const Served& served, pipeline::CallTicket ticket) -> Status {
        const std::uint32_t positions = served.host->info().context;
        SKIPPY_RETURN_IF_ERROR(
            CheckCount("pieces", request->pieces_size(), MostPieces(*served.host)));
        std::vector<pipeline::PieceKey> pieces;
        for (const v1::PieceKey& message : request->pieces()) {
          SKIPPY_TRY(pieces.emplace_back(), FromMessage(message, positions));
        }
        SKIPPY_TRY(const std::vector<bool> held,
                   InTurn(*context, served, [&] { return served.host->Held(ticket, pieces); }));
        for (const bool one : held) response->add_held(one);
        return {};
      });
}

grpc::Status StageService::Find(grpc::ServerContext* context, const v1::FindRequest* request,
                                v1::FindResponse* response) {
  return AnswerCall(
      context, *request, [&](const Served& served, pipeline::CallTicket ticket) -> Status {
        SKIPPY_RETURN_IF_ERROR(
            CheckCount("names", request->names_size(), MostPieces(*served.host)));
        std::vector<Digest> names;
        for (const std::string& name : request->names()) {
          SKIPPY_TRY(names.emplace_back(), DigestOf(name, "a piece's name"));
        }
        SKIPPY_TRY(const std::vector<pipeline::PieceKey> found,
                   InTurn(*context, served, [&] { return served.host->Find(ticket, names); }));
        for (const pipeline::PieceKey& piece : found) *response->add_pieces() = ToMessage(piece);
        return {};
      });
}

grpc::Status StageService::Restore(grpc::ServerContext* context, const v1::RestoreRequest* request,
                                   v1::RestoreResponse* response) {
  return AnswerCall(
      context, *request, [&](const Served& served, pipeline::CallTicket ticket) -> Status {
        const auto restore = RestoreOf(*request, served.host->info().context);
        SKIPPY_TRY(const pipeline::LanePlace place,
                   InTurn(*context, served, [&]() -> Result<pipeline::LanePlace> {
                     if (restore) return served.host->Restore(ticket, *restore);
                     // As after any restore that failed, the lane is empty.
                     SKIPPY_RETURN_IF_ERROR(served.host->Clear(ticket, SeqId{request->lane()}));
                     return tl::unexpected(restore.error());
                   }));
        *response->mutable_lane() = ToMessage(place);
        return {};
      });
}

grpc::Status StageService::Fetch(grpc::ServerContext* context, const v1::FetchRequest* request,
                                 grpc::ServerWriter<v1::FetchResponse>* writer) {
  return Answer(context, [&]() -> Status {
    std::uint64_t most_names = 0;
    std::uint64_t most_layers = 0;
    for (const Served& served : served_) {
      most_names = std::max(most_names, MostPieces(*served.host));
      most_layers = std::max<std::uint64_t>(most_layers, served.host->package().model_layers);
    }
    SKIPPY_RETURN_IF_ERROR(CheckCount("names", request->names_size(), most_names));
    SKIPPY_RETURN_IF_ERROR(CheckCount("layers", request->layers_size(), most_layers));
    if (pieces_ == nullptr) return {};
    const std::vector<std::uint32_t> layers(request->layers().begin(), request->layers().end());
    v1::FetchResponse response;
    for (const std::string& bytes : request->names()) {
      SKIPPY_TRY(const Digest name, DigestOf(bytes, "a piece's name"));
      for (const pipeline::StoredLayer& layer : pieces_->Copies({&name, 1}, layers)) {
        *response.mutable_piece() = ToMessage(layer.key);
        response.set_layer(layer.layer);
        response.set_state(layer.bytes->data(), layer.bytes->size());
        if (!writer->Write(response)) return Err(ErrorCode::kCancelled, "the caller went away");
      }
    }
    return {};
  });
}

}  // namespace skippy::rpc
