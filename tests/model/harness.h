// What the tests on real llama.cpp share: finding models, running prompts on the grid, keeping and
// restoring state.
//
// All runs use one compute thread and small contexts, so that a case takes seconds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "llama/llama_runtime.h"
#include "llama/model.h"
#include "runtime/runtime.h"

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

using Logits = std::vector<float>;

// memcmp, not float comparison: NaN equals NaN, and 0 differs from -0.
bool SameBits(const Logits& a, const Logits& b);
Token Greedy(const Logits& logits);

// Runs tokens [End(lane), to) in chunks that end on the grid; the logits of the last one.
Result<Logits> Prefill(runtime::Runtime& runtime, SeqId lane, TokenSpan tokens, Pos to);
Result<Logits> Step(runtime::Runtime& runtime, SeqId lane, Token token);

// A greedy continuation: logits before each token, and the tokens.
struct Continuation {
  std::vector<Logits> logits;
  std::vector<Token> tokens;
};
Result<Continuation> Generate(runtime::Runtime& runtime, SeqId lane, const Logits& first,
                              int steps);
bool SameBits(const Continuation& a, const Continuation& b);

// State of a lane at its end, cut into pages as the cache would.
struct SavedState {
  Pos end = 0;
  Pos page = 0;
  std::vector<std::vector<std::byte>> kv_pages;
  std::vector<std::byte> window;  // rows [window_from, end)
  Pos window_from = 0;
  std::vector<std::byte> snapshot;
};
// window_rows: at least those the boundary needs are kept, and as many earlier ones as the lane
// still holds.
Result<SavedState> Save(runtime::Runtime& runtime, SeqId lane, Pos page);

// The request that brings the lane to [0, end); end may lie before saved.end for state without
// snapshots. Borrows from `saved` and `tokens`.
struct Restore {
  std::vector<RowSlice> kv;
  std::vector<RowSlice> window;
  runtime::ImportRequest request;
};
Restore MakeRestore(const runtime::Runtime& runtime, SeqId lane, const SavedState& saved,
                    TokenSpan tokens, Pos end);
Status RestoreInto(runtime::Runtime& runtime, SeqId lane, const SavedState& saved, TokenSpan tokens,
                   Pos end);

}  // namespace skippy::model_test
