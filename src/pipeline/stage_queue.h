// StageQueue: a stage's link and the thread that calls it, one call after the other.
//
// So calls to several stages run at the same time, and a call may be posted without waiting for it:
// those after it on the same stage come later. Threads: Post is thread-safe. Errors: none of its
// own. The destructor waits for the calls that were posted.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>

#include "pipeline/stage_link.h"

namespace skippy::pipeline {

class StageQueue {
 public:
  explicit StageQueue(std::unique_ptr<StageLink> link)
      : link_(std::move(link)), thread_([this] { Loop(); }) {}
  StageQueue(const StageQueue&) = delete;
  StageQueue& operator=(const StageQueue&) = delete;
  ~StageQueue() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  const std::string& address() const { return link_->address(); }

  // call(StageLink&) on the queue's thread.
  template <class Call>
  std::future<std::invoke_result_t<Call, StageLink&>> Post(Call call) {
    using Value = std::invoke_result_t<Call, StageLink&>;
    auto task = std::make_shared<std::packaged_task<Value()>>(
        [this, call = std::move(call)]() mutable { return call(*link_); });
    std::future<Value> result = task->get_future();
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back([task] { (*task)(); });
    }
    wake_.notify_one();
    return result;
  }

 private:
  void Loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  const std::unique_ptr<StageLink> link_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;  // last: starts when the rest is there
};

}  // namespace skippy::pipeline
