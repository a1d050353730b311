// The HTTP side: sockets, keys, limits, and the routes behind them. Every answer of 400 and above
// has a JSON body in the form of the API that was asked; no exception gets past here.
//
// Threads: Bind, Start, Publish and Stop from one thread; handlers run on a pool that grows with
// the number of clients.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/routes.h"
#include "skippy/result.h"

namespace skippy::api {

struct HttpOptions {
  std::vector<std::string> hosts{"127.0.0.1"};  // at least one; all with the same port
  int port = 8080;                              // 0: a free one
  std::vector<std::string> api_keys;            // empty: no key needed
  std::size_t max_body_bytes = std::size_t{32} << 20U;
  std::size_t max_threads = 512;  // connections served at once, at each address
  int timeout_seconds = 600;      // of one read or write
  std::string cors_origins =
      "localhost";  // whose pages may read answers: "localhost", "*" or one origin
};

class HttpServer {
 public:
  // Binds at once, so that a taken port or a bad host is an error here (kInvalidArgument) and not
  // after a long load.
  static Result<std::unique_ptr<HttpServer>> Bind(const HttpOptions& options);
  ~HttpServer();  // stops

  int port() const;
  // Serves on a thread of its own; until routes are published every answer is 503 "loading".
  void Start();
  void Publish(std::vector<Route> routes);  // once
  void Stop();  // closes the listening sockets, waits for handlers to return

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace skippy::api
