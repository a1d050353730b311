// State of one lane of the fake runtime: real bytes in real layouts, and digests that are derived
// from those bytes alone, so that anything wrong in a restored byte shows in every later token.
//
// Not thread-safe. No errors: the caller (fake_runtime.cc) has checked all arguments. A step costs
// O(window rows + row bytes), not O(context): the digest of the append-only rows is a sum over
// rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "skippy/memory_shape.h"
#include "skippy/random.h"
#include "skippy/row_slice.h"
#include "skippy/types.h"

namespace skippy::runtime::fake {

constexpr std::uint64_t Mix(std::uint64_t value) { return SplitMix64(value); }
inline std::uint64_t Mix(std::uint64_t a, std::uint64_t b) { return Mix(Mix(a) ^ b); }

// Two digests of the same thing. `high` decides tokens; `low` decides the last bits of logits, and
// is the only one that the shape of a forward pass changes (as batch shapes change low bits of real
// kernels).
struct DualHash {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  DualHash& operator+=(const DualHash& other);
  DualHash& operator-=(const DualHash& other);
};

// The rows' tensors: rows of all tensors lie one after another in a row, and tensor-major in a
// block.
struct RowLayout {
  std::vector<std::uint32_t> tensor_bytes;
  std::uint64_t RowBytes() const;
};

struct StateLayout {
  RowLayout kv;
  RowLayout window;
  std::uint32_t window_tokens = 0;
  std::uint32_t ring_rows = 0;         // window rows that memory holds
  std::uint32_t snapshot_bytes = 0;    // of the state that is read and written
  std::uint32_t snapshot_padding = 0;  // bytes behind it in an export; they follow from it
  bool shape_noise = false;            // the last byte of each tensor row belongs to `low`
};

class LaneState {
 public:
  explicit LaneState(const StateLayout& layout);

  Pos end() const { return end_; }
  Pos window_held_from() const { return window_held_from_; }

  // Evaluates one token at position end(). `salt` is what else the model depends on (weights,
  // adapters), `shape` what only low bits depend on. Returns the digest that logits are made of.
  DualHash Step(Token token, std::uint64_t salt, std::uint64_t shape);
  void Clear();
  // REQUIRES: end <= end() and the window before `end` is held.
  void Truncate(Pos end);

  void ExportKv(PosRange positions, MutableByteSpan out) const;
  void ExportWindow(PosRange positions, MutableByteSpan out) const;
  std::uint64_t SnapshotBytes() const { return snapshot_.size() + layout_.snapshot_padding; }
  void ExportSnapshot(MutableByteSpan out) const;

  // Import of whole slices after Clear(); positions must come in ascending order.
  void ImportKv(const RowSlice& slice);
  void ImportWindow(const RowSlice& slice);
  void ImportSnapshot(ByteSpan bytes);
  void FinishImport(Pos end);

 private:
  DualHash RowDigest(const RowLayout& layout, ByteSpan row, Pos pos) const;
  DualHash BytesDigest(ByteSpan bytes) const;
  DualHash WindowDigest(Pos pos) const;
  void FillRow(const RowLayout& layout, const DualHash& seed, MutableByteSpan row) const;
  void AppendKv(ByteSpan row, Pos pos);
  void PutWindow(ByteSpan row, Pos pos);
  void FillPadding(MutableByteSpan out) const;

  StateLayout layout_;
  Pos end_ = 0;
  Pos window_held_from_ = 0;
  std::vector<std::byte> kv_;         // row-major, one row a position
  std::vector<DualHash> kv_digests_;  // one a position
  DualHash kv_sum_;
  std::vector<std::byte> window_;  // ring: position p lies in row p % ring_rows
  std::vector<DualHash> window_digests_;
  std::vector<std::byte> snapshot_;
};

}  // namespace skippy::runtime::fake
