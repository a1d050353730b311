#include "rpc/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace skippy::rpc {
namespace {

using Ipv6 = std::array<std::uint8_t, sizeof(in6_addr)>;

std::optional<Ipv6> ParseIpv6(const std::string& host) {
  Ipv6 bytes{};
  if (inet_pton(AF_INET6, host.c_str(), bytes.data()) != 1) return std::nullopt;
  return bytes;
}

template <class Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

std::optional<pipeline::LayerRange> ParseRange(std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const auto begin = ParseNumber<std::uint32_t>(text.substr(0, dots));
  const auto end = ParseNumber<std::uint32_t>(text.substr(dots + 2));
  if (!begin || !end || *begin >= *end) return std::nullopt;
  return pipeline::LayerRange{*begin, *end};
}

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}

}  // namespace

Result<Address> ParseAddress(std::string_view text) {
  const auto wrong = [text](std::string_view why) {
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}' is no address of a stage: {}. Write host:port, [ipv6]:port, or "
                           "host:port/0..20 for one stage of several",
                           text, why));
  };
  Address address;
  std::string_view rest = text;
  if (const std::size_t slash = rest.find('/'); slash != std::string_view::npos) {
    address.stage = ParseRange(rest.substr(slash + 1));
    if (!address.stage) return wrong("what follows the slash is no range of layers");
    rest = rest.substr(0, slash);
  }
  if (rest.starts_with('[')) {
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) return wrong("the bracket is not closed");
    address.host = rest.substr(1, close - 1);
    if (!ParseIpv6(address.host)) return wrong("what is in brackets is no IPv6 address");
    rest = rest.substr(close + 1);
  } else {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    address.host = rest.substr(0, colon);
    rest = rest.substr(colon);
    if (std::count(rest.begin(), rest.end(), ':') > 1)
      return wrong("an IPv6 address goes in brackets");
    if (address.host.empty()) return wrong("the host is missing");
    if (!std::all_of(address.host.begin(), address.host.end(), IsNameCharacter))
      return wrong("the host has a character that no name has");
  }
  if (!rest.starts_with(':')) return wrong("the port is missing");
  const auto port = ParseNumber<std::uint16_t>(rest.substr(1));
  if (!port) return wrong("the port is no number from 0 to 65535");
  address.port = *port;
  return address;
}

std::string HostPort(std::string_view host, std::uint16_t port) {
  return host.find(':') == std::string_view::npos ? fmt::format("{}:{}", host, port)
                                                  : fmt::format("[{}]:{}", host, port);
}

bool IsLoopback(const std::string& host) {
  if (host == "localhost") return true;
  std::array<std::uint8_t, sizeof(in_addr)> v4{};
  if (inet_pton(AF_INET, host.c_str(), v4.data()) == 1) return v4[0] == 127;
  const std::optional<Ipv6> v6 = ParseIpv6(host);
  return v6 && *v6 == Ipv6{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
}

}  // namespace skippy::rpc
