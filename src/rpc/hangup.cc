#include "rpc/hangup.h"

#include <grpcpp/client_context.h>

namespace skippy::rpc {

void Hangup::Now() {
  const std::lock_guard lock(mutex_);
  now_ = true;
  for (grpc::ClientContext* call : calls_) call->TryCancel();
}

// A context that is cancelled before its call begins ends the call when it does.
Hangup::Call::Call(Hangup* hangup, grpc::ClientContext& context)
    : hangup_(hangup), context_(context) {
  if (hangup_ == nullptr) return;
  const std::lock_guard lock(hangup_->mutex_);
  hangup_->calls_.insert(&context_);
  if (hangup_->now_) context_.TryCancel();
}

Hangup::Call::~Call() {
  if (hangup_ == nullptr) return;
  const std::lock_guard lock(hangup_->mutex_);
  hangup_->calls_.erase(&context_);
}

}  // namespace skippy::rpc
