// Hangup: ends the calls of a client at once, for a coordinator that stops and does not wait for a
// stage that does not answer.
//
// Threads: thread-safe. Cost: a lock a call.
#pragma once

#include <mutex>
#include <set>

namespace grpc {
class ClientContext;
}

namespace skippy::rpc {

class Hangup {
 public:
  // Running calls end as if the stage had gone (kUnavailable), and so do later ones.
  void Now();

  // A call that Now() ends, as long as this lives.
  class Call {
   public:
    Call(Hangup* hangup, grpc::ClientContext& context);  // null: no Hangup, nothing ends it
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Hangup* const hangup_;
    grpc::ClientContext& context_;
  };

 private:
  std::mutex mutex_;
  bool now_ = false;
  std::set<grpc::ClientContext*> calls_;
};

}  // namespace skippy::rpc
