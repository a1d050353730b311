#include "rpc/dropping_proxy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace skippy::rpc {
namespace {

sockaddr_in Loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

int Listen(std::string& address) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in where = Loopback(0);
  socklen_t size = sizeof where;
  EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&where), size), 0);
  EXPECT_EQ(listen(listener, SOMAXCONN), 0);
  EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&where), &size), 0);
  address = "127.0.0.1:" + std::to_string(ntohs(where.sin_port));
  return listener;
}

}  // namespace

DroppingProxy::DroppingProxy(std::uint16_t target)
    : target_(target), listener_(Listen(address_)), acceptor_([this] { Accept(); }) {}

DroppingProxy::~DroppingProxy() {
  Drop();
  acceptor_.join();
  for (std::thread& relay : relays_) relay.join();
  for (const int socket : sockets_) close(socket);
  close(listener_);
}

void DroppingProxy::Drop() {
  const std::lock_guard lock(mutex_);
  dropped_ = true;
  // Sockets are closed when nobody can be reading from them any more.
  shutdown(listener_, SHUT_RDWR);
  for (const int socket : sockets_) shutdown(socket, SHUT_RDWR);
}

void DroppingProxy::Accept() {
  for (;;) {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in where = Loopback(target_);
    EXPECT_EQ(connect(server, reinterpret_cast<sockaddr*>(&where), sizeof where), 0);
    const std::lock_guard lock(mutex_);
    sockets_.push_back(client);
    sockets_.push_back(server);
    if (dropped_) return;
    relays_.emplace_back([this, client, server] { Relay(client, server); });
    relays_.emplace_back([this, client, server] { Relay(server, client); });
  }
}

void DroppingProxy::Relay(int from, int to) {
  std::array<char, 1U << 16U> buffer{};
  for (;;) {
    const ssize_t got = recv(from, buffer.data(), buffer.size(), 0);
    if (got <= 0) break;
    for (ssize_t sent = 0; sent < got;) {
      const ssize_t now =
          send(to, buffer.data() + sent, static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
      if (now <= 0) return;
      sent += now;
    }
  }
  shutdown(to, SHUT_WR);
}

SilentListener::SilentListener() : socket_(Listen(address_)) {}
SilentListener::~SilentListener() { close(socket_); }

}  // namespace skippy::rpc
