// A loaded GGUF: weights, vocabulary, adapters, and what identifies them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "skippy/digest.h"
#include "skippy/result.h"

struct llama_model;
struct llama_vocab;
struct llama_adapter_lora;

namespace skippy::llama {

struct ModelOptions {
  std::string path;
  std::int32_t gpu_layers = -1;  // -1: all that fit (no effect in CPU builds)
  bool use_mmap = true;
  std::vector<std::string> rpc_servers = {};  // whose devices take layers too (rpc_devices.h)
  std::vector<std::pair<std::string, float>> adapters;  // LoRA file, default scale
  bool need_tokenizer = true;  // refuse files without a vocabulary (layer packages have none)
  // Tokenizer, template and metadata only, of a file that need not have layers: no runtime can be
  // made of it, no adapter loaded.
  bool vocabulary_only = false;
};

// Immutable after loading; thread-safe for reading (tokenising included).
class Model {
 public:
  // Reads the file's header itself first, so that "not a GGUF", "truncated", "unreadable" and
  // "needs n bytes, file has m" are clear kInvalidArgument/kNotFound errors before llama.cpp sees
  // the file.
  static Result<std::unique_ptr<Model>> Load(const ModelOptions& options);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  llama_model* raw() const;
  const llama_vocab* vocab() const;
  const std::string& architecture() const;
  const Digest& content_digest() const;  // BLAKE3 of the file(s)
  const Digest& tokenizer_digest() const;
  bool vocabulary_only() const;

  struct Adapter {
    std::string path;
    float default_scale;
    Digest content;
    llama_adapter_lora* raw;
  };
  const std::vector<Adapter>& adapters() const;

 private:
  struct State;
  explicit Model(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace skippy::llama
