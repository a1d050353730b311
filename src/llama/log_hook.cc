#include "llama/log_hook.h"

#include <llama.h>
#include <log.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

namespace skippy::llama {
namespace {

constexpr std::size_t kMaxErrorText = 600;

// Lines are kept per thread: llama.cpp reports an error on the thread that called it.
struct ThreadLog {
  std::string errors;
  std::string line;  // unfinished line: llama.cpp prints some lines in pieces
  ggml_log_level level = GGML_LOG_LEVEL_NONE;
};
thread_local ThreadLog thread_log;

ggml_log_level PrintLevel() {
  static const ggml_log_level level = [] {
    const char* wanted = std::getenv("SKIPPY_LLAMA_LOG");
    if (wanted == nullptr) return GGML_LOG_LEVEL_CONT;  // above every real level: print nothing
    const std::string_view name = wanted;
    if (name == "debug") return GGML_LOG_LEVEL_DEBUG;
    if (name == "info") return GGML_LOG_LEVEL_INFO;
    if (name == "warn") return GGML_LOG_LEVEL_WARN;
    return GGML_LOG_LEVEL_ERROR;
  }();
  return level;
}

void FinishLine() {
  ThreadLog& log = thread_log;
  if (log.level >= PrintLevel()) std::fprintf(stderr, "llama.cpp: %s\n", log.line.c_str());
  if (log.level == GGML_LOG_LEVEL_ERROR && !log.line.empty()) {
    if (!log.errors.empty()) log.errors += "; ";
    log.errors += log.line;
    // The last lines matter: the first error names the symptom, later ones repeat it on the way up.
    if (log.errors.size() > kMaxErrorText) log.errors.erase(0, log.errors.size() - kMaxErrorText);
  }
  log.line.clear();
}

void Hook(ggml_log_level level, const char* text, void* /*user_data*/) {
  try {
    ThreadLog& log = thread_log;
    if (level != GGML_LOG_LEVEL_CONT) log.level = level;
    for (const char* c = text; *c != '\0'; ++c) {
      if (*c == '\n') {
        FinishLine();
      } else {
        log.line += *c;
      }
    }
  } catch (...) {
    // Out of memory while logging: the line is lost, the caller must not notice.
  }
}

}  // namespace

void InitialiseBackend() {
  static std::once_flag once;
  std::call_once(once, [] {
    llama_log_set(Hook, nullptr);
    common_log_set_verbosity_thold(LOG_LEVEL_OUTPUT -
                                   1);  // it writes to stdout and stderr by itself
    llama_backend_init();
  });
}

std::string ErrorLines() { return thread_log.errors; }

void ClearErrors() {
  thread_log.errors.clear();
  thread_log.line.clear();
}

}  // namespace skippy::llama
