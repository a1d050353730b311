// CellCache: one llama_kv_cache with isolated streams, seen as rows by position.
//
// Guarantees: position p of a lane always lies in cell p % cells() of the lane's own stream. That
// is where a cold run puts it (docs/decisions/0020), so a restored lane has the memory layout of a
// cold one and attention sums in the same order. A full-size cache has at least as many cells as a
// lane has positions: cell == position. Threads: engine thread only. Errors: none; callers check
// ranges first. Callers synchronise the context before reading or writing rows. Cost: Claim and
// Drop are O(log n) a position (llama.cpp's sets); rows move at memcpy speed in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "llama/state_parts.h"
#include "skippy/row_slice.h"
#include "skippy/types.h"

class llama_kv_cache;
struct ggml_tensor;

namespace skippy::llama {

class CellCache {
 public:
  // positions_per_token: rows of positions that llama.cpp keeps a token (4 with M-RoPE, else 1).
  // keys_only leaves out value tensors that the graph never reads or writes.
  // Touches lane 0, which must be empty, to learn the tensors from llama.cpp's own state writer.
  CellCache(llama_kv_cache* cache, std::uint32_t positions_per_token, bool keys_only);

  std::uint32_t cells() const { return cells_; }
  std::size_t row_bytes() const { return row_bytes_; }
  // Of a row, in the order of a block.
  std::vector<TensorShare> Shares() const;

  // Marks positions as held by the lane, in order; their cells must be free. The next token goes
  // behind the last. tokens: those of the whole sequence, from position 0.
  void Claim(SeqId lane, PosRange positions, TokenSpan tokens);
  // Frees all positions from `from` on.
  void Drop(SeqId lane, Pos from);
  // Drop for a cache that may have wrapped: afterwards the cells look as in a cold run that stopped
  // at `end`. Rows that were overwritten meanwhile are claimed again with stale content; the caller
  // knows they are masked.
  void CutRing(SeqId lane, Pos end, Pos old_end);
  // Whether [begin, end) lies where it should and nothing follows it.
  bool InPlace(SeqId lane, PosRange positions) const;
  Token TokenAt(SeqId lane, Pos position) const;

  // Rows of consecutive positions, at most cells() of them. prefix: bytes a row that the block's
  // tensors of earlier caches of the same component take.
  void Read(SeqId lane, PosRange positions, std::size_t prefix, MutableByteSpan block) const;
  void Write(SeqId lane, std::span<const RowSlice> slices, std::size_t prefix);
  void Copy(SeqId from, SeqId to, PosRange positions);

 private:
  // One tensor, or one channel of a transposed value tensor: rows of row_bytes, one after the
  // other.
  struct Slab {
    ggml_tensor* tensor = nullptr;
    std::size_t offset = 0;  // of cell 0 of stream 0
    std::size_t stream_stride = 0;
    std::size_t row_bytes = 0;
    std::size_t prefix = 0;     // bytes a row of the slabs before this one
    std::byte* host = nullptr;  // null: not host memory
  };
  struct Run {
    std::uint32_t cell = 0;
    Pos offset = 0;  // in rows, from the first position
    Pos count = 0;
  };

  void LearnSlabs(bool keys_only);
  std::uint32_t Stream(SeqId lane) const;
  std::uint32_t Cell(Pos position) const { return position % cells_; }
  // The one or two runs of adjacent cells of a range.
  std::vector<Run> Runs(PosRange positions) const;
  std::size_t Offset(const Slab& slab, SeqId lane, std::uint32_t cell) const;
  void WriteStaged(const Slab& slab, SeqId lane, std::span<const RowSlice> slices,
                   std::size_t prefix);

  llama_kv_cache* cache_;
  std::uint32_t positions_per_token_;
  std::uint32_t cells_ = 0;
  std::uint32_t streams_ = 1;
  std::size_t row_bytes_ = 0;
  std::vector<Slab> slabs_;
  std::vector<std::byte> staging_;
};

}  // namespace skippy::llama
