#include "model/harness.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>

namespace skippy::model_test {

std::string ModelPath(const std::string& file_name) {
  const char* folder = std::getenv("SKIPPY_MODELS");
  const char* home = std::getenv("HOME");
  const std::filesystem::path base =
      folder != nullptr
          ? folder
          : std::filesystem::path(home != nullptr ? home : ".") / ".cache/skippy/models";
  const auto path = base / file_name;
  if (!std::filesystem::exists(path))
    ADD_FAILURE() << "model " << path
                  << " is missing; `make models` fetches it, or set SKIPPY_MODELS to its folder";
  return path.string();
}

std::unique_ptr<llama::Model> LoadModel(const std::string& path) {
  auto model =
      llama::Model::Load({.path = path, .gpu_layers = -1, .use_mmap = true, .adapters = {}});
  if (!model) {
    ADD_FAILURE() << model.error().message;
    return nullptr;
  }
  return std::move(*model);
}

std::unique_ptr<runtime::Runtime> NewRuntime(const llama::Model& model, const RunSetup& setup) {
  auto runtime = llama::MakeRuntime(model, {.context = setup.context,
                                            .lanes = setup.lanes,
                                            .chunk = setup.chunk,
                                            .threads = 1,
                                            .threads_batch = 1,
                                            .flash_attention = setup.flash_attention,
                                            .swa_full = setup.swa_full,
                                            .type_k = setup.type_k,
                                            .type_v = setup.type_v});
  if (!runtime) {
    ADD_FAILURE() << runtime.error().message;
    return nullptr;
  }
  return std::move(*runtime);
}

std::vector<Token> RandomPrompt(const runtime::Runtime& runtime, std::size_t length,
                                std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Token> tokens(length);
  for (Token& token : tokens) token = static_cast<Token>(random() % runtime.info().vocab);
  return tokens;
}

bool SameBits(const Logits& a, const Logits& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

Token Greedy(const Logits& logits) {
  return static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

Result<Logits> Prefill(runtime::Runtime& runtime, SeqId lane, TokenSpan tokens, Pos to) {
  Logits logits;
  const std::uint32_t chunk = runtime.info().chunk;
  for (Pos at = runtime.End(lane); at < to;) {
    const Pos next = std::min(to, at - at % chunk + chunk);
    const runtime::DecodeItem item{lane, at, tokens.subspan(at, next - at), next == to};
    SKIPPY_RETURN_IF_ERROR(runtime.Decode({&item, 1}));
    at = next;
  }
  const auto row = runtime.Logits(0);
  return Logits(row.begin(), row.end());
}

Result<Logits> Step(runtime::Runtime& runtime, SeqId lane, Token token) {
  const runtime::DecodeItem item{lane, runtime.End(lane), TokenSpan(&token, 1), true};
  SKIPPY_RETURN_IF_ERROR(runtime.Decode({&item, 1}));
  const auto row = runtime.Logits(0);
  return Logits(row.begin(), row.end());
}

Result<Continuation> Generate(runtime::Runtime& runtime, SeqId lane, const Logits& first,
                              int steps) {
  Continuation out;
  Logits logits = first;
  for (int i = 0; i < steps; ++i) {
    out.logits.push_back(logits);
    out.tokens.push_back(Greedy(logits));
    SKIPPY_TRY(logits, Step(runtime, lane, out.tokens.back()));
  }
  out.logits.push_back(logits);
  return out;
}

bool SameBits(const Continuation& a, const Continuation& b) {
  return a.tokens == b.tokens &&
         std::equal(a.logits.begin(), a.logits.end(), b.logits.begin(), b.logits.end(),
                    [](const Logits& x, const Logits& y) { return SameBits(x, y); });
}

Result<SavedState> Save(runtime::Runtime& runtime, SeqId lane, Pos page) {
  const MemoryShape& shape = runtime.info().shape;
  SavedState saved;
  saved.end = runtime.End(lane);
  saved.page = page;
  for (Pos at = 0; shape.HasKv() && at < saved.end; at += page) {
    const PosRange rows{at, std::min(saved.end, at + page)};
    auto& block = saved.kv_pages.emplace_back(rows.size() * shape.kv_row_bytes);
    SKIPPY_RETURN_IF_ERROR(runtime.ExportRows(lane, Component::kKv, rows, block));
  }
  if (shape.HasWindow()) {
    saved.window_from = runtime.WindowHeldFrom(lane);
    saved.window.resize((saved.end - saved.window_from) * shape.window_row_bytes);
    SKIPPY_RETURN_IF_ERROR(
        runtime.ExportRows(lane, Component::kWindow, {saved.window_from, saved.end}, saved.window));
  }
  if (shape.HasSnapshot()) {
    saved.snapshot.resize(shape.snapshot_bytes);
    SKIPPY_RETURN_IF_ERROR(runtime.ExportSnapshot(lane, saved.snapshot));
  }
  return saved;
}

Restore MakeRestore(const runtime::Runtime& runtime, SeqId lane, const SavedState& saved,
                    TokenSpan tokens, Pos end) {
  const MemoryShape& shape = runtime.info().shape;
  Restore restore;
  for (Pos i = 0; i < saved.kv_pages.size() && i * saved.page < end; ++i) {
    const Pos begin = i * saved.page;
    const Pos rows = std::min(saved.end - begin, saved.page);
    restore.kv.push_back({saved.kv_pages[i], rows, 0, {begin, std::min(end, begin + rows)}});
  }
  if (shape.HasWindow()) {
    const Pos begin = shape.WindowBegin(end);
    if (begin < end)
      restore.window.push_back(
          {saved.window, saved.end - saved.window_from, begin - saved.window_from, {begin, end}});
  }
  restore.request = {.lane = lane,
                     .end = end,
                     .tokens = tokens.first(end),
                     .kv = restore.kv,
                     .window = restore.window,
                     .snapshot = saved.snapshot};
  return restore;
}

Status RestoreInto(runtime::Runtime& runtime, SeqId lane, const SavedState& saved, TokenSpan tokens,
                   Pos end) {
  return runtime.Import(MakeRestore(runtime, lane, saved, tokens, end).request);
}

}  // namespace skippy::model_test
