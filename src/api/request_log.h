// One JSON line a finished request on standard output: sizes, times, what the cache did; never text
// or token ids. Lines are written by a thread of its own, so the engine never waits for a slow
// reader; when more than kMaxPending lines wait, the newest are dropped and counted.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "api/errors.h"
#include "engine/request.h"

namespace skippy::api {

// What is known of a request besides the engine's report.
struct RequestFacts {
  std::string id;
  std::string endpoint;
  std::string tenant;  // first characters of the salt, itself a digest; empty: none
  std::size_t choice = 0;
  bool stream = false;
};

// A request that never reached the engine: bad input, full queue.
std::string RejectedLine(const std::string& endpoint, const ApiError& error);
std::string RequestLine(const RequestFacts& facts, const engine::GenerationReport& report);

class RequestLog {
 public:
  static constexpr std::size_t kMaxPending = 4096;

  explicit RequestLog(std::FILE* out);
  ~RequestLog();  // writes what is pending
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;

  void Append(std::string line);  // thread-safe

 private:
  void Run();

  std::FILE* out_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::string> pending_;
  std::uint64_t dropped_ = 0;
  bool stopping_ = false;
  std::thread thread_;  // last: the others are there before it runs
};

}  // namespace skippy::api
