// llama.cpp's and ggml's log, caught: quiet by default, the last error lines kept so that our
// errors can quote them.
//
// Threads: every function may be called from any thread. Errors: none.
// Environment: SKIPPY_LLAMA_LOG=error|warn|info|debug prints lines of that level and above to
// stderr.
#pragma once

#include <string>

namespace skippy::llama {

// Redirects the log of llama.cpp, ggml and llama.cpp's common library and initialises the backends,
// once per process; later calls do nothing.
void InitialiseBackend();

// Error lines of this thread since the last ClearErrors() on it, oldest first, joined by "; ".
// Empty: none.
std::string ErrorLines();
void ClearErrors();

}  // namespace skippy::llama
