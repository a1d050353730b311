// RecurrentState: the state of one sequence in a llama_memory_recurrent, as one flat block of fixed
// size.
//
// Guarantees: what Export wrote, Import puts back bit for bit, into any lane. Layout: the rows of
// all layers in llama.cpp's own order, one after the other, without headers. Threads: engine thread
// only. Errors: by return value; the caller checks sizes. Callers synchronise the context. Cost:
// one copy of bytes(), whatever the length of the sequence.
#pragma once

#include <cstddef>
#include <vector>

#include "llama/state_parts.h"
#include "skippy/types.h"

class llama_memory_recurrent;
struct ggml_tensor;

namespace skippy::llama {

class RecurrentState {
 public:
  // Touches lane 0, which must be empty, to learn the tensors from llama.cpp's own state writer.
  explicit RecurrentState(llama_memory_recurrent* memory);

  std::size_t bytes() const { return bytes_; }
  // In the order of a block.
  std::vector<TensorShare> Shares() const;

  // False: the lane is empty.
  bool Export(SeqId lane, MutableByteSpan out) const;
  // The lane's state is then the one after position end - 1. False: llama.cpp found no row for it.
  bool Import(SeqId lane, Pos end, ByteSpan state);
  void Drop(SeqId lane);
  // Whether the lane's state is that after position end - 1 (end == 0: the lane is empty).
  bool InPlace(SeqId lane, Pos end) const;
  // Moves the position without touching the state: right only for a state of zero bytes.
  void MoveTo(SeqId lane, Pos end);

 private:
  struct Row {
    ggml_tensor* tensor = nullptr;
    std::size_t bytes = 0;
    std::byte* host = nullptr;  // null: not host memory
  };
  bool FindRow(SeqId lane, Pos end);

  llama_memory_recurrent* memory_;
  std::vector<Row> rows_;
  std::size_t bytes_ = 0;
};

}  // namespace skippy::llama
