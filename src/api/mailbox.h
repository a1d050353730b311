// From the engine thread to the HTTP thread of one request: results in order, and in the other
// direction only the word that the client has gone. Thread-safe. Unbounded in form; in fact bounded
// by the tokens of one answer, which the context bounds.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "engine/request.h"
#include "server-task.h"

namespace skippy::api {

struct SinkEvent {
  // kPing never comes from the engine: the waiting side makes it when a stream has been silent for
  // long.
  enum class Kind : std::uint8_t { kBegin, kPartial, kFinal, kFailed, kPing };
  Kind kind = Kind::kBegin;
  std::size_t choice = 0;
  std::unique_ptr<server_task_result> result{};  // kPartial, kFinal
  engine::GenerationReport report{};             // kFinal, kFailed
};

class Mailbox {
 public:
  void Push(SinkEvent event) {
    {
      const std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
    }
    arrived_.notify_one();
  }

  // Empty after `patience` without an event.
  std::optional<SinkEvent> Pop(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, patience, [&] { return !events_.empty(); });
    if (events_.empty()) return std::nullopt;
    SinkEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

  void Abandon() { abandoned_.store(true, std::memory_order_relaxed); }
  bool abandoned() const { return abandoned_.load(std::memory_order_relaxed); }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<SinkEvent> events_;
  std::atomic<bool> abandoned_{false};
};

}  // namespace skippy::api
