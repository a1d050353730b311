#include "model/harness.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
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

Result<Continuation> Generate(runtime::Runtime& runtime, SeqId lane, const Logits& first,
                              int steps) {
  Continuation out;
  Logits logits = first;
  for (int i = 0; i < steps; ++i) {
    out.logits.push_back(logits);
    out.tokens.push_back(ArgMax(logits));
    SKIPPY_TRY(logits, DecodeOne(runtime, lane, out.tokens.back()));
  }
  out.logits.push_back(logits);
  return out;
}

bool SameBits(const Continuation& a, const Continuation& b) {
  return a.tokens == b.tokens &&
         std::equal(a.logits.begin(), a.logits.end(), b.logits.begin(), b.logits.end(),
                    [](const Logits& x, const Logits& y) { return SameBits(x, y); });
}

}  // namespace skippy::model_test
