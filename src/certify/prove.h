// Whether a model's kept state is exact on this machine at these settings: what its certificate
// says, or, without one, what a test of a few seconds finds. Asked once before serving.
#pragma once

#include <functional>
#include <string>

#include "certify/certificate.h"
#include "runtime/runtime.h"
#include "skippy/prefix_cache.h"
#include "skippy/result.h"

namespace skippy::certify {

struct ProveOptions {
  Exactness exactness = Exactness::kToken;
  bool run = true;               // false: believe a certificate, but test nothing (--no-self-test)
  std::string certificate_file;  // empty: the one in the folder, if any
  std::string folder;            // where results are kept
  std::function<void(const std::string&)> say;  // a line for the operator
};

struct Proof {
  bool exact = true;  // false: the cache must be off, for `words`
  std::string words;  // e.g. "bit-exact by the certificate of 2026-01-31"
};

// The lanes are empty afterwards. An error only for a certificate file that was named and is
// damaged, foreign, or of another version; a damaged one in the folder is told and tested anew.
// Cost: reading a file, or QuickSelfTest's.
Result<Proof> ProveExact(runtime::Runtime& runtime, const ProveOptions& options);

}  // namespace skippy::certify
