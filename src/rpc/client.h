// Links to stages of other processes, through gRPC (stage.proto).
//
// A link finds its stage again by itself when that was restarted: the first call then says
// kUnavailable, Attach begins anew. A dead process is noticed at once, a dead machine or cable
// within kDeadAfter, also while nothing is asked.
//
// Threads: as StageLink says; links may be used at the same time, also those of one server (they
// share a connection). Errors: as StageLink says, with the address in the message; kUnavailable:
// away, or no answer in time; kInvalidArgument: address, secret, files; kUnsupported: another
// version. Cost: one round trip a call; rows are copied twice on each side, between floats, message
// and socket.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/piece_source.h"
#include "pipeline/stage_link.h"
#include "pipeline/wire.h"
#include "rpc/hangup.h"
#include "skippy/result.h"

namespace skippy::rpc {

inline constexpr std::chrono::seconds kDeadAfter{10};

struct ClientOptions {
  std::string secret = {};  // empty: none
  // PEM certificates that the server's must be signed by; empty: no TLS.
  std::string tls_ca_file = {};
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds call_timeout{30'000};  // of all others within a session
  std::chrono::milliseconds timeout{600'000};      // of Decode, Restore, Find and Fetch
  pipeline::WireFormat wire = pipeline::WireFormat::kF32;
  std::shared_ptr<Hangup> hangup = {};  // null: calls end by themselves only
};

// One link for each stage that the server has; with a range in the address (rpc/address.h) for that
// one alone (kNotFound: it has another). Begins no session.
Result<std::vector<std::unique_ptr<pipeline::StageLink>>> Connect(std::string_view address,
                                                                  const ClientOptions& options);

// The pieces that another process keeps (its ServerOptions::pieces). It is called when something is
// wanted, so it may come later, go and come back; while it is away that costs one connect_timeout
// at most, then nothing. Answers that were not asked for are kInternal.
Result<std::unique_ptr<pipeline::PieceSource>> PiecesAt(std::string_view address,
                                                        const ClientOptions& options);

}  // namespace skippy::rpc
