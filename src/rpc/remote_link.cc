#include "rpc/remote_link.h"

#include <fmt/format.h>

#include <utility>

#include "rpc/messages.h"

namespace skippy::rpc {

using pipeline::LanePlace;
using pipeline::PieceKey;
using pipeline::PieceSlice;
using pipeline::StageDescription;
using pipeline::StageOutput;
using pipeline::StageRestore;
using Stub = v1::Stage::Stub;

RemoteLink::RemoteLink(std::shared_ptr<Connection> connection, pipeline::LayerRange layers)
    : connection_(std::move(connection)),
      layers_(layers),
      address_(fmt::format("{}/{}", connection_->server(), ToString(layers))) {}

template <class Request>
Request RemoteLink::Begin() {
  Request request;
  v1::Call& call = *request.mutable_call();
  *call.mutable_layers() = ToMessage(layers_);
  call.set_session(session_);
  call.set_number(++calls_);
  return request;
}

Error RemoteLink::Malformed(std::string_view what) const {
  return {ErrorCode::kInternal, fmt::format("{}: malformed answer: {}", address_, what)};
}

Result<StageDescription> RemoteLink::Attach() {
  connection_->TryAfresh();
  v1::AttachRequest request;
  request.set_schema_version(kSchemaVersion);
  *request.mutable_layers() = ToMessage(layers_);
  SKIPPY_TRY(const v1::AttachResponse response,
             connection_->Call<v1::AttachResponse>(address_, "Attach", &Stub::Attach, request,
                                                   connection_->options().call_timeout));
  SKIPPY_RETURN_IF_ERROR(CheckSchema(address_, response.schema_version()));
  Result<StageDescription> description = FromMessage(response.stage());
  if (!description) return tl::unexpected(Malformed(description.error().message));
  session_ = description->session;
  calls_ = 0;
  input_width_ = description->input_width;
  output_width_ = description->output_width;
  vocab_ = description->info.vocab;
  context_ = description->info.context;
  return description;
}

Result<StageOutput> RemoteLink::Decode(std::span<const runtime::RowsItem> items) {
  if (session_ == 0) return Err(ErrorCode::kUnavailable, fmt::format("{}: not attached", address_));
  auto request = Begin<v1::DecodeRequest>();
  request.set_wire(ToMessage(connection_->options().wire));
  for (const runtime::RowsItem& item : items) {
    v1::DecodeRequest::Item& message = *request.add_items();
    message.set_lane(item.lane.value);
    message.set_pos(item.pos);
    message.set_want_logits(item.want_logits);
    Result<std::string> rows = PackRows(connection_->options().wire, item.rows, input_width_);
    if (!rows) return Err(rows.error().code, fmt::format("{}: {}", address_, rows.error().message));
    message.set_rows(std::move(*rows));
  }
  SKIPPY_TRY(const v1::DecodeResponse response,
             connection_->Call<v1::DecodeResponse>(address_, "Decode", &Stub::Decode, request,
                                                   connection_->options().timeout));
  return Unpack(response, items);
}

Result<StageOutput> RemoteLink::Unpack(const v1::DecodeResponse& response,
                                       std::span<const runtime::RowsItem> items) const {
  StageOutput output;
  std::size_t rows = 0;
  for (const runtime::RowsItem& item : items) rows += item.rows.size() / input_width_;
  if (output_width_ > 0) {
    auto unpacked = UnpackRows(connection_->options().wire, response.rows(), output_width_);
    if (!unpacked) return tl::unexpected(Malformed(unpacked.error().message));
    output.rows = std::move(*unpacked);
  } else if (!response.rows().empty()) {
    return tl::unexpected(Malformed("rows of a stage that gives logits"));
  }
  if (output.rows.size() != rows * output_width_)
    return tl::unexpected(Malformed(
        fmt::format("{} values are not {} rows of {}", output.rows.size(), rows, output_width_)));
  if (static_cast<std::size_t>(response.lanes_size()) != items.size() ||
      static_cast<std::size_t>(response.logits_size()) != (output_width_ == 0 ? items.size() : 0))
    return tl::unexpected(
        Malformed(fmt::format("{} lanes and {} logits for {} items", response.lanes_size(),
                              response.logits_size(), items.size())));
  for (int i = 0; i < response.logits_size(); ++i) {
    auto logits = UnpackLogits(response.logits(i));
    if (!logits) return tl::unexpected(Malformed(logits.error().message));
    if (logits->size() != (items[static_cast<std::size_t>(i)].want_logits ? vocab_ : 0))
      return tl::unexpected(
          Malformed(fmt::format("{} logits; the vocabulary has {}", logits->size(), vocab_)));
    output.logits.push_back(std::move(*logits));
  }
  for (const v1::LanePlace& place : response.lanes()) output.lanes.push_back(FromMessage(place));
  return output;
}

Status RemoteLink::Clear(SeqId lane) {
  auto request = Begin<v1::ClearRequest>();
  request.set_lane(lane.value);
  SKIPPY_RETURN_IF_ERROR(connection_->Call<v1::ClearResponse>(
      address_, "Clear", &Stub::Clear, request, connection_->options().call_timeout));
  return {};
}

Result<LanePlace> RemoteLink::Truncate(SeqId lane, Pos end) {
  auto request = Begin<v1::TruncateRequest>();
  request.set_lane(lane.value);
  request.set_end(end);
  SKIPPY_TRY(const v1::TruncateResponse response,
             connection_->Call<v1::TruncateResponse>(address_, "Truncate", &Stub::Truncate, request,
                                                     connection_->options().call_timeout));
  return FromMessage(response.lane());
}

Result<LanePlace> RemoteLink::Copy(SeqId from, SeqId to) {
  auto request = Begin<v1::CopyRequest>();
  request.set_from(from.value);
  request.set_to(to.value);
  SKIPPY_TRY(const v1::CopyResponse response,
             connection_->Call<v1::CopyResponse>(address_, "Copy", &Stub::Copy, request,
                                                 connection_->options().call_timeout));
  return FromMessage(response.lane());
}

Status RemoteLink::Keep(SeqId lane, const PieceKey& piece) {
  auto request = Begin<v1::KeepRequest>();
  request.set_lane(lane.value);
  *request.mutable_piece() = ToMessage(piece);
  SKIPPY_RETURN_IF_ERROR(connection_->Call<v1::KeepResponse>(address_, "Keep", &Stub::Keep, request,
                                                             connection_->options().call_timeout));
  return {};
}

Status RemoteLink::Forget() {
  SKIPPY_RETURN_IF_ERROR(connection_->Call<v1::ForgetResponse>(
      address_, "Forget", &Stub::Forget, Begin<v1::ForgetRequest>(),
      connection_->options().call_timeout));
  return {};
}

Result<std::vector<bool>> RemoteLink::Held(std::span<const PieceKey> pieces) {
  auto request = Begin<v1::HeldRequest>();
  for (const PieceKey& piece : pieces) *request.add_pieces() = ToMessage(piece);
  SKIPPY_TRY(const v1::HeldResponse response,
             connection_->Call<v1::HeldResponse>(address_, "Held", &Stub::Held, request,
                                                 connection_->options().call_timeout));
  if (static_cast<std::size_t>(response.held_size()) != pieces.size())
    return tl::unexpected(
        Malformed(fmt::format("{} of {} pieces", response.held_size(), pieces.size())));
  return std::vector<bool>(response.held().begin(), response.held().end());
}

Result<std::vector<PieceKey>> RemoteLink::Find(std::span<const Digest> names) {
  auto request = Begin<v1::FindRequest>();
  for (const Digest& name : names) request.add_names(DigestBytes(name));
  // The stage may fetch them from another one first.
  SKIPPY_TRY(const v1::FindResponse response,
             connection_->Call<v1::FindResponse>(address_, "Find", &Stub::Find, request,
                                                 connection_->options().timeout));
  std::vector<PieceKey> found;
  for (const v1::PieceKey& piece : response.pieces()) {
    Result<PieceKey> key = FromMessage(piece, context_);
    if (!key) return tl::unexpected(Malformed(key.error().message));
    found.push_back(*key);
  }
  return found;
}

Result<LanePlace> RemoteLink::Restore(const StageRestore& restore) {
  auto request = Begin<v1::RestoreRequest>();
  request.set_lane(restore.lane.value);
  request.set_end(restore.end);
  for (const PieceSlice& slice : restore.kv) *request.add_kv() = ToMessage(slice);
  for (const PieceSlice& slice : restore.window) *request.add_window() = ToMessage(slice);
  if (restore.snapshot) *request.mutable_snapshot() = ToMessage(*restore.snapshot);
  SKIPPY_TRY(const v1::RestoreResponse response,
             connection_->Call<v1::RestoreResponse>(address_, "Restore", &Stub::Restore, request,
                                                    connection_->options().timeout));
  return FromMessage(response.lane());
}

}  // namespace skippy::rpc
