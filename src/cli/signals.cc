#include "cli/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

namespace skippy::cli {
namespace {

// Only what a signal handler may touch.
int wake_pipe[2] = {-1, -1};
std::atomic<bool> serving{false};
std::atomic<int> signals_seen{0};

extern "C" void OnStopSignal(int number) {
  const int before = signals_seen.fetch_add(1);
  if (before > 0 || !serving.load()) _exit(before > 0 ? 128 + number : 0);
  const char byte = 1;
  [[maybe_unused]] const ssize_t written = write(wake_pipe[1], &byte, 1);
}

}  // namespace

void InstallStopSignals() {
  if (pipe2(wake_pipe, O_CLOEXEC | O_NONBLOCK) != 0) return;
  struct sigaction action {};
  action.sa_handler = OnStopSignal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A client that goes away while we write is an error of that write, not the end of the process.
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

void WaitForStop() {
  serving.store(true);
  pollfd wait{wake_pipe[0], POLLIN, 0};
  while (signals_seen.load() == 0) {
    if (poll(&wait, 1, -1) < 0 && errno != EINTR) return;
    if ((wait.revents & POLLIN) != 0) return;
  }
}

}  // namespace skippy::cli
