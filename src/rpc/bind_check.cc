#include "rpc/bind_check.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>

namespace skippy::rpc {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { freeaddrinfo(addresses); }
};

}  // namespace

std::optional<std::string> WhyNotBound(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
      error != 0)
    return gai_strerror(error);
  const std::unique_ptr<addrinfo, FreeAddresses> addresses(found);
  const int listener = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int reuse = 1;
  int error = errno;
  if (listener >= 0) {
    const bool bound = setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse) == 0 &&
                       bind(listener, found->ai_addr, found->ai_addrlen) == 0;
    error = bound ? 0 : errno;
    close(listener);
  }
  if (error == 0) return std::nullopt;
  return std::system_category().message(error);
}

}  // namespace skippy::rpc
