// Why an address cannot be listened on: gRPC itself only says that it cannot.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace skippy::rpc {

// The system's words ("Address already in use"); none: it could be had just now.
std::optional<std::string> WhyNotBound(const std::string& host, std::uint16_t port);

}  // namespace skippy::rpc
