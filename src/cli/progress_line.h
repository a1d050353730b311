// One line on standard error that is written over, when somebody looks.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace skippy::cli {

class ProgressLine {
 public:
  ProgressLine() : shown_(isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() {
    if (shown_) std::fprintf(stderr, "\r\033[K");
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void operator()(std::size_t done, std::size_t total, std::string_view what) const {
    if (!shown_) return;
    constexpr std::size_t kBar = 24;
    const std::size_t filled = total == 0 ? 0 : kBar * done / total;
    std::fprintf(stderr, "\r\033[K[%s%s] %zu/%zu %.*s", std::string(filled, '=').c_str(),
                 std::string(kBar - filled, ' ').c_str(), done, total,
                 static_cast<int>(what.size()), what.data());
  }

 private:
  const bool shown_;
};

}  // namespace skippy::cli
