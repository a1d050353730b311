// Where activations enter and leave a graph of llama.cpp's that holds a range of layers: through
// its evaluation callback, by the names of nodes.
//
// Threads: engine thread only. Errors: kInternal when a node was not met exactly once in a forward
// pass (another build, a graph that fuses it away): the pass's result is then worthless. Cost: a
// string comparison a node; rows are copied once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "skippy/result.h"

struct ggml_tensor;

namespace skippy::llama {

struct StageNodes {
  std::string
      inject;  // the input is written over this node's value; empty: it enters as embeddings
  std::string capture;      // the output is read from this node; empty: logits leave
  std::uint32_t width = 0;  // floats a token
  // The model's own embedding rows are in the file: tokens may enter instead of rows.
  bool takes_tokens = false;
};

class StageIo {
 public:
  explicit StageIo(StageNodes nodes) : nodes_(std::move(nodes)) {}
  StageIo(const StageIo&) = delete;
  StageIo& operator=(const StageIo&) = delete;

  // For llama_context_params::cb_eval, with this as user data.
  static bool OnNode(ggml_tensor* node, bool ask, void* self);

  // Before a forward pass of `tokens` tokens. `rows` must live until Finish; empty: tokens enter.
  void Begin(std::span<const float> rows, std::size_t tokens);
  // After it: whether every node was met.
  Status Finish() const;

  const StageNodes& nodes() const { return nodes_; }
  bool captures() const { return !nodes_.capture.empty(); }
  std::span<const float> captured() const { return captured_; }

 private:
  bool Evaluated(ggml_tensor* node);

  const StageNodes nodes_;
  std::span<const float> input_;
  std::size_t expected_ = 0;  // values that leave
  std::vector<float> captured_;
  int injections_ = 0;
  int captures_ = 0;
};

}  // namespace skippy::llama
