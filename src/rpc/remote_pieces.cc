#include "rpc/remote_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "rpc/messages.h"

namespace skippy::rpc {

RemotePieces::RemotePieces(std::shared_ptr<Connection> connection)
    : connection_(std::move(connection)) {}

Result<std::vector<pipeline::StoredLayer>> RemotePieces::Fetch(
    std::span<const Digest> names, std::span<const std::uint32_t> layers) {
  v1::FetchRequest request;
  for (const Digest& name : names) request.add_names(DigestBytes(name));
  request.mutable_layers()->Assign(layers.begin(), layers.end());
  const std::set<Digest> asked(names.begin(), names.end());
  const auto malformed = [&](std::string_view what) {
    return Err(ErrorCode::kInternal,
               fmt::format("{}: malformed answer: {}", connection_->server(), what));
  };
  std::vector<pipeline::StoredLayer> found;
  const auto take = [&](const v1::FetchResponse& response) -> Status {
    const auto key = FromMessage(response.piece(), std::numeric_limits<Pos>::max());
    if (!key) return malformed(key.error().message);
    // They go into a store that is trusted afterwards.
    if (!asked.contains(key->name) ||
        std::find(layers.begin(), layers.end(), response.layer()) == layers.end())
      return malformed("a piece that was not asked for");
    const auto bytes = std::as_bytes(std::span(response.state()));
    found.push_back({*key, response.layer(),
                     std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end())});
    return {};
  };
  SKIPPY_RETURN_IF_ERROR(connection_->CallForMany("Fetch", &v1::Stage::Stub::Fetch, request,
                                                  connection_->options().timeout, take));
  return found;
}

}  // namespace skippy::rpc
