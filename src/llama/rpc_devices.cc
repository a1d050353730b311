#include "llama/rpc_devices.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <ggml-backend.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <memory>

#include "llama/log_hook.h"

namespace skippy::llama {
namespace {

constexpr int kConnectMilliseconds = 5000;
constexpr int kLargestPort = 65535;

struct Endpoint {
  std::string host;
  std::string port;
};

Result<Endpoint> Parse(const std::string& server) {
  const std::size_t colon = server.rfind(':');
  int port = 0;
  if (colon != std::string::npos) {
    const char* end = server.data() + server.size();
    const auto [read, error] = std::from_chars(server.data() + colon + 1, end, port);
    if (error != std::errc() || read != end) port = 0;
  }
  if (colon == 0 || port <= 0 || port > kLargestPort)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("--rpc: '{}' is no address of an rpc-server; one is written host:port",
                           server));
  return Endpoint{server.substr(0, colon), server.substr(colon + 1)};
}

bool Connects(const addrinfo& address) {
  const int descriptor = socket(
      address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol);
  if (descriptor < 0) return false;
  bool connected = connect(descriptor, address.ai_addr, address.ai_addrlen) == 0;
  if (!connected && errno == EINPROGRESS) {
    pollfd wait{descriptor, POLLOUT, 0};
    int error = 0;
    socklen_t size = sizeof error;
    connected = poll(&wait, 1, kConnectMilliseconds) == 1 &&
                getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
  }
  close(descriptor);
  return connected;
}

bool Listens(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(endpoint.host.c_str(), endpoint.port.c_str(), &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, &freeaddrinfo);
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next)
    if (Connects(*at)) return true;
  return false;
}

}  // namespace

Status AddRpcServers(const std::vector<std::string>& servers) {
  if (servers.empty()) return {};
  InitialiseBackend();
  using AddServer = ggml_backend_reg_t (*)(const char*);
  ggml_backend_reg_t rpc = ggml_backend_reg_by_name("RPC");
  const auto add = rpc == nullptr ? nullptr
                                  : reinterpret_cast<AddServer>(ggml_backend_reg_get_proc_address(
                                        rpc, "ggml_backend_rpc_add_server"));
  if (add == nullptr)
    return Err(ErrorCode::kUnsupported, "--rpc: this program was built without GGML_RPC");
  // llama.cpp ends the process where it cannot connect, so all are tried before.
  for (const std::string& server : servers) {
    SKIPPY_TRY(const Endpoint endpoint, Parse(server));
    if (!Listens(endpoint))
      return Err(
          ErrorCode::kUnavailable,
          fmt::format("--rpc: nothing listens at {}: start llama.cpp's rpc-server there", server));
  }
  for (const std::string& server : servers) {
    ggml_backend_reg_t devices = add(server.c_str());
    if (devices == nullptr)
      return Err(ErrorCode::kUnavailable, fmt::format("--rpc: {} has no device", server));
    ggml_backend_register(devices);
  }
  return {};
}

}  // namespace skippy::llama
