// RemotePieces: the pieces that another process keeps.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pipeline/piece_source.h"
#include "rpc/connection.h"

namespace skippy::rpc {

class RemotePieces final : public pipeline::PieceSource {
 public:
  explicit RemotePieces(std::shared_ptr<Connection> connection);
  Result<std::vector<pipeline::StoredLayer>> Fetch(std::span<const Digest> names,
                                                   std::span<const std::uint32_t> layers) override;

 private:
  const std::shared_ptr<Connection> connection_;
};

}  // namespace skippy::rpc
