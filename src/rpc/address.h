// Where a stage is: "host:port", or "host:port/0..20" for one of several stages of that server.
// IPv6 addresses stand in brackets: "[::1]:7000".
//
// Threads: pure functions. Errors: kInvalidArgument, with the text and what it should look like.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pipeline/layer_range.h"
#include "skippy/result.h"

namespace skippy::rpc {

struct Address {
  std::string host;  // a name, or an IPv4 or IPv6 address without brackets
  std::uint16_t port = 0;
  std::optional<pipeline::LayerRange> stage;
  bool operator==(const Address&) const = default;
};

Result<Address> ParseAddress(std::string_view text);

// "host:port", with brackets where the host needs them.
std::string HostPort(std::string_view host, std::uint16_t port);

// Whether only this machine can reach what listens there. A name other than "localhost" does not
// count, whatever it resolves to.
bool IsLoopback(const std::string& host);

}  // namespace skippy::rpc
