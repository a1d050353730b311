// A TCP relay on loopback that can drop its connections without a word, as a process that is killed
// or a machine that is switched off does.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace skippy::rpc {

class DroppingProxy {
 public:
  explicit DroppingProxy(std::uint16_t target);
  DroppingProxy(const DroppingProxy&) = delete;
  DroppingProxy& operator=(const DroppingProxy&) = delete;
  ~DroppingProxy();

  const std::string& address() const { return address_; }
  // All connections end at once, and no new ones are taken.
  void Drop();

 private:
  void Accept();
  void Relay(int from, int to);

  const std::uint16_t target_;
  std::string address_;  // Listen sets it
  const int listener_;
  std::mutex mutex_;
  bool dropped_ = false;
  std::vector<int> sockets_;
  std::vector<std::thread> relays_;
  std::thread acceptor_;
};

// Listens and answers nothing, ever.
class SilentListener {
 public:
  SilentListener();
  SilentListener(const SilentListener&) = delete;
  SilentListener& operator=(const SilentListener&) = delete;
  ~SilentListener();
  const std::string& address() const { return address_; }

 private:
  std::string address_;  // Listen sets it
  const int socket_;
};

}  // namespace skippy::rpc
