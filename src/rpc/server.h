// StageServer: stages of this process for coordinators elsewhere, through gRPC (stage.proto).
//
// Security. With a secret, a call without it is refused before anything of it is looked at (its
// message has been received by then, up to the limit of sizes); the comparison takes the same time
// for every wrong one. Without a secret only loopback addresses are served. Without TLS, secret and
// activations (from which the text can be guessed) travel readable.
//
// Guarantees: a call whose client is gone, or out of time, before its turn comes is not carried
// out. No message aborts the process, whatever is in it.
//
// Threads: Start and Stop from one thread; calls run on threads of gRPC, those of one stage one
// after the other. Errors: kInvalidArgument (an address that cannot be had, files, options). Cost:
// one round trip a call; rows are copied twice on each side, between floats, message and socket.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/piece_store.h"
#include "pipeline/stage_host.h"
#include "skippy/result.h"

namespace skippy::rpc {

struct TlsFiles {
  std::string certificate;  // path of a PEM chain; must name the host that clients write
  std::string key;          // path of its PEM key
};

struct ServerOptions {
  std::string address;                      // "host:port", "[ipv6]:port"; port 0: a free one
  std::vector<pipeline::StageHost*> hosts;  // at least one, all of other layers; outlive the server
  // Whose pieces other processes may fetch (client.h, PiecesAt); outlives the server. None: nobody
  // finds any here.
  const pipeline::PieceStore* pieces = nullptr;
  std::string secret = {};  // empty: none
  std::optional<TlsFiles> tls = {};
};

class StageServer {
 public:
  StageServer();
  StageServer(const StageServer&) = delete;
  StageServer& operator=(const StageServer&) = delete;
  ~StageServer();  // stops

  // The port that is bound. Begins a session with each host, to learn its widths.
  Result<std::uint16_t> Start(const ServerOptions& options);
  // Ends what is running for its clients (kUnavailable) and waits until it has returned here. May
  // be started again.
  void Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace skippy::rpc
