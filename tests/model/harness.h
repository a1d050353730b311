// What the tests on real llama.cpp share: finding models, contexts, greedy continuations. Prompts
// are run and state is kept and restored by the certifier's own functions.
//
// All runs use one compute thread and small contexts, so that a case takes seconds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "certify/compare.h"
#include "certify/port_run.h"
#include "certify/sampler.h"
#include "llama/llama_runtime.h"
#include "llama/model.h"
#include "runtime/runtime.h"
#include "runtime/saved_state.h"

namespace skippy::model_test {

// The file in $SKIPPY_MODELS or ~/.cache/skippy/models. Fails the running test with a message that
// says how to get it when it is missing.
std::string ModelPath(const std::string& file_name);

struct RunSetup {
  std::uint32_t context = 1024;
  std::uint32_t lanes = 3;
  std::uint32_t chunk = 64;
  bool flash_attention = true;
  bool swa_full = false;
  std::string type_k = "f16";
  std::string type_v = "f16";
};

std::unique_ptr<llama::Model> LoadModel(const std::string& path);
std::unique_ptr<runtime::Runtime> NewRuntime(const llama::Model& model, const RunSetup& setup);

std::vector<Token> RandomPrompt(const runtime::Runtime& runtime, std::size_t length,
                                std::uint32_t seed);

using certify::ArgMax;
using certify::DecodeOne;
using certify::Logits;
using certify::Prefill;
using certify::SameBits;
using runtime::MakeRestore;
using runtime::Restore;
using runtime::RestoreInto;
using runtime::Save;
using runtime::SavedState;

// A greedy continuation: logits before each token, and the tokens.
struct Continuation {
  std::vector<Logits> logits;
  std::vector<Token> tokens;
};
Result<Continuation> Generate(runtime::Runtime& runtime, SeqId lane, const Logits& first,
                              int steps);
bool SameBits(const Continuation& a, const Continuation& b);

}  // namespace skippy::model_test
