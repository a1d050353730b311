// A GGUF model as the certifier sees it.
//
// Threads: one. The model must outlive the subject.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "certify/certify.h"
#include "certify/subject.h"
#include "llama/llama_runtime.h"
#include "llama/model.h"

namespace skippy::cli {

// Everyday sentences drawn by the seed, as tokens of the model's tokenizer; valid token ids drawn
// at random where the tokenizer makes nothing of them. Texts of one seed are prefixes of each
// other. Cost: tokenises once a seed as far as asked for.
class SentenceSource {
 public:
  explicit SentenceSource(const llama::Model& model) : model_(model) {}
  std::vector<Token> operator()(std::size_t count, std::uint64_t seed);

 private:
  struct Text {
    std::vector<Token> tokens;
    std::uint64_t sentences = 0;
  };
  void Extend(Text& text, std::uint64_t seed) const;

  const llama::Model& model_;
  std::map<std::uint64_t, Text> texts_;
};

class LlamaSubject final : public certify::Subject {
 public:
  // path: the model's file, for its family's figures.
  LlamaSubject(const llama::Model& model, std::string path)
      : model_(model), path_(std::move(path)), text_(model) {}

  Result<std::unique_ptr<runtime::Runtime>> NewRuntime(
      const runtime::RuntimeOptions& options) override {
    return llama::MakeRuntime(model_, options);
  }
  std::vector<Token> Text(std::size_t count, std::uint64_t seed) override {
    return text_(count, seed);
  }
  std::uint64_t ExpandedRowBytes(const runtime::RuntimeOptions& options) override;

 private:
  const llama::Model& model_;
  const std::string path_;
  SentenceSource text_;
};

}  // namespace skippy::cli
