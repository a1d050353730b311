// RemoteLink: a stage of another process as a link.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pipeline/stage_link.h"
#include "rpc/connection.h"

namespace skippy::rpc {

class RemoteLink final : public pipeline::StageLink {
 public:
  RemoteLink(std::shared_ptr<Connection> connection, pipeline::LayerRange layers);

  const std::string& address() const override { return address_; }
  Result<pipeline::StageDescription> Attach() override;
  Result<pipeline::StageOutput> Decode(std::span<const runtime::RowsItem> items) override;
  Status Clear(SeqId lane) override;
  Result<pipeline::LanePlace> Truncate(SeqId lane, Pos end) override;
  Result<pipeline::LanePlace> Copy(SeqId from, SeqId to) override;
  Status Keep(SeqId lane, const pipeline::PieceKey& piece) override;
  Result<std::vector<bool>> Held(std::span<const pipeline::PieceKey> pieces) override;
  Result<std::vector<pipeline::PieceKey>> Find(std::span<const Digest> names) override;
  Status Forget() override;
  Result<pipeline::LanePlace> Restore(const pipeline::StageRestore& restore) override;

 private:
  template <class Request>
  Request Begin();  // with the next call's head
  Error Malformed(std::string_view what) const;
  Result<pipeline::StageOutput> Unpack(const v1::DecodeResponse& response,
                                       std::span<const runtime::RowsItem> items) const;

  const std::shared_ptr<Connection> connection_;
  const pipeline::LayerRange layers_;
  const std::string address_;
  // Of the last Attach.
  std::uint64_t session_ = 0;
  std::uint64_t calls_ = 0;
  std::uint32_t input_width_ = 0;
  std::uint32_t output_width_ = 0;
  std::uint32_t vocab_ = 0;
  std::uint32_t context_ = 0;
};

}  // namespace skippy::rpc
