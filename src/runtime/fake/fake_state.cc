#include "runtime/fake/fake_state.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace skippy::runtime::fake {
namespace {

// Domains keep the streams of one digest apart.
constexpr std::uint64_t kRowDomain = 0x526f77;
constexpr std::uint64_t kSnapshotDomain = 0x536e6170;
constexpr std::uint64_t kPaddingDomain = 0x506164;
constexpr std::uint64_t kReadDomain = 0x52656164;
constexpr std::uint64_t kLogitDomain = 0x4c6f6769;

std::uint64_t HashBytes(std::uint64_t seed, ByteSpan bytes) {
  std::uint64_t hash = Mix(seed, bytes.size());
  while (!bytes.empty()) {
    std::uint64_t word = 0;
    const std::size_t count = std::min(bytes.size(), sizeof(word));
    std::memcpy(&word, bytes.data(), count);
    hash = Mix(hash, word);
    bytes = bytes.subspan(count);
  }
  return hash;
}

void FillBytes(std::uint64_t seed, MutableByteSpan out) {
  for (std::uint64_t i = 0; !out.empty(); ++i) {
    const std::uint64_t word = Mix(seed, i);
    const std::size_t count = std::min(out.size(), sizeof(word));
    std::memcpy(out.data(), &word, count);
    out = out.subspan(count);
  }
}

}  // namespace

DualHash& DualHash::operator+=(const DualHash& other) {
  high += other.high;
  low += other.low;
  return *this;
}

DualHash& DualHash::operator-=(const DualHash& other) {
  high -= other.high;
  low -= other.low;
  return *this;
}

std::uint64_t RowLayout::RowBytes() const {
  return std::accumulate(tensor_bytes.begin(), tensor_bytes.end(), std::uint64_t{0});
}

LaneState::LaneState(const StateLayout& layout)
    : layout_(layout),
      window_(layout.ring_rows * layout.window.RowBytes()),
      window_digests_(layout.ring_rows),
      snapshot_(layout.snapshot_bytes) {}

DualHash LaneState::BytesDigest(ByteSpan bytes) const {
  const bool noisy = layout_.shape_noise && !bytes.empty();
  const ByteSpan firm = noisy ? bytes.first(bytes.size() - 1) : bytes;
  return {HashBytes(0, firm), HashBytes(0, bytes)};
}

DualHash LaneState::RowDigest(const RowLayout& layout, ByteSpan row, Pos pos) const {
  DualHash digest{Mix(kRowDomain, pos), Mix(kRowDomain, pos)};
  for (const std::uint32_t bytes : layout.tensor_bytes) {
    const DualHash part = BytesDigest(row.first(bytes));
    digest = {Mix(digest.high, part.high), Mix(digest.low, part.low)};
    row = row.subspan(bytes);
  }
  return digest;
}

// All window rows that a token at `pos` reads: those before it; its own is not written yet.
DualHash LaneState::WindowDigest(Pos pos) const {
  DualHash sum;
  if (layout_.ring_rows == 0) return sum;
  const Pos first = pos > layout_.window_tokens ? pos - layout_.window_tokens : 0;
  for (Pos p = first; p < pos; ++p) sum += window_digests_[p % layout_.ring_rows];
  return sum;
}

void LaneState::FillRow(const RowLayout& layout, const DualHash& seed, MutableByteSpan row) const {
  std::uint64_t tensor = 0;
  for (const std::uint32_t bytes : layout.tensor_bytes) {
    const MutableByteSpan part = row.first(bytes);
    FillBytes(Mix(seed.high, ++tensor), part);
    if (layout_.shape_noise) part.back() = static_cast<std::byte>(Mix(seed.low, tensor) & 0xff);
    row = row.subspan(bytes);
  }
}

void LaneState::AppendKv(ByteSpan row, Pos pos) {
  kv_.insert(kv_.end(), row.begin(), row.end());
  kv_digests_.push_back(RowDigest(layout_.kv, row, pos));
  kv_sum_ += kv_digests_.back();
}

void LaneState::PutWindow(ByteSpan row, Pos pos) {
  const std::size_t slot = pos % layout_.ring_rows;
  std::memcpy(window_.data() + slot * row.size(), row.data(), row.size());
  window_digests_[slot] = RowDigest(layout_.window, row, pos);
}

DualHash LaneState::Step(Token token, std::uint64_t salt, std::uint64_t shape) {
  const Pos pos = end_;
  const DualHash window = WindowDigest(pos);
  const DualHash state = BytesDigest(snapshot_);
  const std::uint64_t input =
      Mix(Mix(kReadDomain, salt), Mix(static_cast<std::uint64_t>(token), pos));
  DualHash read;
  read.high = Mix(Mix(input, kv_sum_.high), Mix(window.high, state.high));
  read.low = Mix(Mix(Mix(input, kv_sum_.low), Mix(window.low, state.low)),
                 layout_.shape_noise ? shape : 0);
  if (!layout_.kv.tensor_bytes.empty()) {
    std::vector<std::byte> row(layout_.kv.RowBytes());
    FillRow(layout_.kv, {Mix(read.high, 1), Mix(read.low, 1)}, row);
    AppendKv(row, pos);
  }
  if (layout_.ring_rows > 0) {
    std::vector<std::byte> row(layout_.window.RowBytes());
    FillRow(layout_.window, {Mix(read.high, 2), Mix(read.low, 2)}, row);
    PutWindow(row, pos);
    if (pos + 1 > layout_.ring_rows) {
      window_held_from_ = std::max(window_held_from_, pos + 1 - layout_.ring_rows);
    }
  }
  if (!snapshot_.empty()) {
    FillBytes(Mix(read.high, kSnapshotDomain), snapshot_);
    if (layout_.shape_noise) {
      snapshot_.back() = static_cast<std::byte>(Mix(read.low, kSnapshotDomain) & 0xff);
    }
  }
  ++end_;
  return {Mix(read.high, kLogitDomain), Mix(read.low, kLogitDomain)};
}

void LaneState::Clear() {
  end_ = 0;
  window_held_from_ = 0;
  kv_.clear();
  kv_digests_.clear();
  kv_sum_ = {};
  // What a cleared ring holds is nobody's: fill it so that reading it shows.
  std::fill(window_.begin(), window_.end(), std::byte{0xEE});
  std::fill(window_digests_.begin(), window_digests_.end(), DualHash{0xEEEE, 0xEEEE});
  std::fill(snapshot_.begin(), snapshot_.end(), std::byte{0});
}

void LaneState::Truncate(Pos end) {
  if (!layout_.kv.tensor_bytes.empty()) {
    for (Pos p = end; p < end_; ++p) kv_sum_ -= kv_digests_[p];
    kv_digests_.resize(end);
    kv_.resize(end * layout_.kv.RowBytes());
  }
  end_ = end;
}

namespace {

// Copies row `from_row` of a tensor-major block of `rows` rows into or out of a row-major row.
template <class Visit>
void ForEachTensorRow(const RowLayout& layout, std::size_t block_rows, std::size_t row,
                      const Visit& visit) {
  std::size_t in_block = 0;
  std::size_t in_row = 0;
  for (const std::uint32_t bytes : layout.tensor_bytes) {
    visit(in_block + row * bytes, in_row, bytes);
    in_block += block_rows * bytes;
    in_row += bytes;
  }
}

void RowToBlock(const RowLayout& layout, const std::byte* source, std::size_t block_rows,
                std::size_t row, MutableByteSpan block) {
  ForEachTensorRow(layout, block_rows, row,
                   [&](std::size_t in_block, std::size_t in_row, std::size_t bytes) {
                     std::memcpy(block.data() + in_block, source + in_row, bytes);
                   });
}

std::vector<std::byte> RowFromBlock(const RowLayout& layout, ByteSpan block, std::size_t block_rows,
                                    std::size_t row) {
  std::vector<std::byte> out(layout.RowBytes());
  ForEachTensorRow(layout, block_rows, row,
                   [&](std::size_t in_block, std::size_t in_row, std::size_t bytes) {
                     std::memcpy(out.data() + in_row, block.data() + in_block, bytes);
                   });
  return out;
}

}  // namespace

void LaneState::ExportKv(PosRange positions, MutableByteSpan out) const {
  const std::size_t row_bytes = layout_.kv.RowBytes();
  for (Pos p = positions.begin; p < positions.end; ++p) {
    RowToBlock(layout_.kv, kv_.data() + p * row_bytes, positions.size(), p - positions.begin, out);
  }
}

void LaneState::ExportWindow(PosRange positions, MutableByteSpan out) const {
  const std::size_t row_bytes = layout_.window.RowBytes();
  for (Pos p = positions.begin; p < positions.end; ++p) {
    const std::size_t slot = p % layout_.ring_rows;
    RowToBlock(layout_.window, window_.data() + slot * row_bytes, positions.size(),
               p - positions.begin, out);
  }
}

void LaneState::ImportKv(const RowSlice& slice) {
  for (Pos i = 0; i < slice.positions.size(); ++i) {
    AppendKv(RowFromBlock(layout_.kv, slice.block, slice.block_rows, slice.first_row + i),
             slice.positions.begin + i);
  }
}

void LaneState::ImportWindow(const RowSlice& slice) {
  for (Pos i = 0; i < slice.positions.size(); ++i) {
    PutWindow(RowFromBlock(layout_.window, slice.block, slice.block_rows, slice.first_row + i),
              slice.positions.begin + i);
  }
}

void LaneState::FillPadding(MutableByteSpan out) const {
  FillBytes(HashBytes(kPaddingDomain, snapshot_), out);
}

void LaneState::ExportSnapshot(MutableByteSpan out) const {
  std::copy(snapshot_.begin(), snapshot_.end(), out.begin());
  FillPadding(out.subspan(snapshot_.size()));
}

void LaneState::ImportSnapshot(ByteSpan bytes) {
  const ByteSpan padding = bytes.subspan(layout_.snapshot_bytes);
  bytes = bytes.first(layout_.snapshot_bytes);
  snapshot_.assign(bytes.begin(), bytes.end());
  std::vector<std::byte> expected(padding.size());
  FillPadding(expected);
  // A wrong byte of the padding shows like one of the state.
  if (!std::equal(padding.begin(), padding.end(), expected.begin()))
    FillBytes(HashBytes(kPaddingDomain, padding), snapshot_);
}

void LaneState::FinishImport(Pos end) {
  end_ = end;
  window_held_from_ = end > layout_.window_tokens ? end - layout_.window_tokens : 0;
  if (layout_.ring_rows == 0) window_held_from_ = 0;
}

}  // namespace skippy::runtime::fake
