// Subject: what is being certified, as far as the certifier needs it. It knows no llama.cpp: tests
// certify the fake runtime, and broken ones, through the same interface.
//
// Threads: one; the certifier calls it on its caller's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/runtime.h"
#include "runtime/runtime_options.h"
#include "skippy/result.h"
#include "skippy/types.h"

namespace skippy::certify {

class Subject {
 public:
  virtual ~Subject() = default;

  // A fresh runtime with empty lanes. An error is a statement about the setting (a cache type that
  // the model cannot have), not a crash; its message goes into the report.
  virtual Result<std::unique_ptr<runtime::Runtime>> NewRuntime(
      const runtime::RuntimeOptions& options) = 0;

  // `count` valid token ids; the same for the same seed, another text for another seed. Texts of
  // one seed are prefixes of each other. Should read like what the model is made for: with noise
  // for a prompt, all logits lie close together.
  virtual std::vector<Token> Text(std::size_t count, std::uint64_t seed) = 0;

  // For sampled continuations: deterministic in the seed and the logits. The default draws by
  // temperature, see sampler.h.
  virtual Result<std::unique_ptr<runtime::Sampler>> MakeSampler(std::uint64_t seed);

  // Bytes a token of the same attention rows if latents were kept expanded (MLA); 0: no latents.
  virtual std::uint64_t ExpandedRowBytes(const runtime::RuntimeOptions&) { return 0; }
};

}  // namespace skippy::certify
