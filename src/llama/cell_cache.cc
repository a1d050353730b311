#include "llama/cell_cache.h"

#include <ggml-backend.h>
#include <llama-io.h>
#include <llama-kv-cache.h>

#include <algorithm>
#include <cstring>

#include "llama/stream_copy.h"

namespace skippy::llama {
namespace {

// Learns which tensor rows make up one cell: llama.cpp's state writer names them, in a fixed order.
class SlabRecorder final : public llama_io_write_i {
 public:
  struct Piece {
    ggml_tensor* tensor;
    std::size_t offset;
    std::size_t bytes;
  };
  void write(const void* /*src*/, std::size_t size) override { written_ += size; }
  void write_tensor(ggml_tensor* tensor, std::size_t offset, std::size_t size) override {
    pieces.push_back({tensor, offset, size});
    written_ += size;
  }
  std::size_t n_bytes() override { return written_; }

  std::vector<Piece> pieces;

 private:
  std::size_t written_ = 0;
};

llama_seq_id Sequence(SeqId lane) { return static_cast<llama_seq_id>(lane.value); }

}  // namespace

CellCache::CellCache(llama_kv_cache* cache, std::uint32_t positions_per_token, bool keys_only)
    : cache_(cache),
      positions_per_token_(positions_per_token),
      cells_(cache->get_size()),
      streams_(cache->get_n_stream()) {
  LearnSlabs(keys_only);
}

void CellCache::LearnSlabs(bool keys_only) {
  const Token token = 0;
  Claim(SeqId{0}, {0, 1}, TokenSpan(&token, 1));
  SlabRecorder recorder;
  cache_->state_write(recorder, 0, 0);
  Drop(SeqId{0}, 0);
  auto pieces = recorder.pieces;
  if (keys_only) {
    // Keys come first, one tensor a layer.
    pieces.resize(std::min(pieces.size(), cache_->get_layer_ids().size()));
  }
  for (const auto& piece : pieces) {
    ggml_tensor* base = piece.tensor->view_src != nullptr ? piece.tensor->view_src : piece.tensor;
    Slab slab;
    slab.tensor = base;
    slab.offset = piece.tensor->view_offs + piece.offset;
    slab.stream_stride = base->nb[2];
    slab.row_bytes = piece.bytes;
    slab.prefix = row_bytes_;
    if (ggml_backend_buffer_is_host(base->buffer)) slab.host = static_cast<std::byte*>(base->data);
    row_bytes_ += slab.row_bytes;
    slabs_.push_back(slab);
  }
}

std::vector<TensorShare> CellCache::Shares() const {
  std::vector<TensorShare> shares;
  for (const Slab& slab : slabs_) {
    const char* name = ggml_get_name(slab.tensor);
    shares.push_back({name, LayerOfName(name), slab.row_bytes});
  }
  return shares;
}

std::uint32_t CellCache::Stream(SeqId lane) const { return streams_ == 1 ? 0 : lane.value; }

std::size_t CellCache::Offset(const Slab& slab, SeqId lane, std::uint32_t cell) const {
  return slab.offset + Stream(lane) * slab.stream_stride + cell * slab.row_bytes;
}

void CellCache::Claim(SeqId lane, PosRange positions, TokenSpan tokens) {
  if (positions.empty()) return;
  const std::uint32_t count = positions.size();
  llama_seq_id sequence = Sequence(lane);
  // Text positions as llama.cpp expands them: p, p, p, 0 with M-RoPE.
  std::vector<llama_pos> pos(std::size_t{count} * positions_per_token_, 0);
  for (std::uint32_t row = 0; row < std::min(positions_per_token_, 3U); ++row)
    for (std::uint32_t i = 0; i < count; ++i)
      pos[std::size_t{row} * count + i] = static_cast<llama_pos>(positions.begin + i);
  std::vector<llama_token> ids(tokens.begin() + positions.begin, tokens.begin() + positions.end);
  std::vector<int32_t> sequence_counts(count, 1);
  std::vector<llama_seq_id*> sequences(count, &sequence);

  llama_ubatch batch{};
  batch.b_equal_seqs = 1;
  batch.n_tokens = count;
  batch.n_seq_tokens = count;
  batch.n_seqs = 1;
  batch.n_seqs_unq = 1;
  batch.n_pos = positions_per_token_;
  batch.token = ids.data();
  batch.pos = pos.data();
  batch.n_seq_id = sequence_counts.data();
  batch.seq_id = sequences.data();
  batch.seq_id_unq = &sequence;

  llama_kv_cache::slot_info slot;
  slot.resize(1);
  slot.s0 = slot.s1 = Stream(lane);
  slot.strm[0] = static_cast<llama_seq_id>(Stream(lane));
  slot.idxs[0].reserve(count);
  for (Pos p = positions.begin; p < positions.end; ++p) slot.idxs[0].push_back(Cell(p));
  cache_->apply_ubatch(slot, batch);
}

void CellCache::Drop(SeqId lane, Pos from) {
  cache_->seq_rm(Sequence(lane), static_cast<llama_pos>(from), -1);
}

void CellCache::CutRing(SeqId lane, Pos end, Pos old_end) {
  const Pos overwritten =
      old_end > cells_ ? old_end - cells_ : 0;  // [0, overwritten) has no cell any more
  // The tokens of overwritten rows are gone; only n-gram embeddings read them, and never so far
  // back.
  std::vector<Token> tokens(end, 0);
  tokens[end - 1] = TokenAt(lane, end - 1);
  Drop(lane, end);
  if (overwritten == 0)
    return;  // never wrapped: llama.cpp's search goes on at the first freed cell, which is end
  // llama.cpp looks for the next cell behind the last one claimed, so the last position is claimed
  // again, last.
  Drop(lane, end - 1);
  Claim(lane, {end > cells_ ? end - cells_ : 0, overwritten}, tokens);
  Claim(lane, {end - 1, end}, tokens);
}

bool CellCache::InPlace(SeqId lane, PosRange positions) const {
  const llama_seq_id sequence = Sequence(lane);
  if (positions.end == 0) return cache_->seq_pos_max(sequence) == -1;
  if (cache_->seq_pos_max(sequence) != static_cast<llama_pos>(positions.end - 1)) return false;
  const Pos first_held = positions.end > cells_ ? positions.end - cells_ : 0;
  if (cache_->seq_pos_min(sequence) != static_cast<llama_pos>(first_held)) return false;
  const llama_kv_cells& cells = cache_->get_cells(sequence);
  const auto holds = [&](Pos p) {
    return !cells.is_empty(Cell(p)) && cells.pos_get(Cell(p)) == static_cast<llama_pos>(p) &&
           cells.seq_has(Cell(p), sequence);
  };
  return holds(std::max(positions.begin, first_held)) && holds(positions.end - 1);
}

Token CellCache::TokenAt(SeqId lane, Pos position) const {
  const llama_kv_cells& cells = cache_->get_cells(Sequence(lane));
  return cells.is_empty(Cell(position)) ? 0 : cells.ext_get(Cell(position)).tok;
}

std::vector<CellCache::Run> CellCache::Runs(PosRange positions) const {
  std::vector<Run> runs;
  for (Pos p = positions.begin; p < positions.end;) {
    const Pos count = std::min(positions.end - p, cells_ - Cell(p));
    runs.push_back({Cell(p), p - positions.begin, count});
    p += count;
  }
  return runs;
}

void CellCache::Read(SeqId lane, PosRange positions, std::size_t prefix,
                     MutableByteSpan block) const {
  const std::vector<Run> runs = Runs(positions);
  for (const Slab& slab : slabs_) {
    std::byte* out = block.data() + (prefix + slab.prefix) * positions.size();
    for (const Run& run : runs) {
      std::byte* rows = out + run.offset * slab.row_bytes;
      const std::size_t offset = Offset(slab, lane, run.cell);
      if (slab.host != nullptr) {
        std::memcpy(rows, slab.host + offset, run.count * slab.row_bytes);
      } else {
        ggml_backend_tensor_get(slab.tensor, rows, offset, run.count * slab.row_bytes);
      }
    }
  }
}

void CellCache::Write(SeqId lane, std::span<const RowSlice> slices, std::size_t prefix) {
  if (slices.empty()) return;
  const PosRange all{slices.front().positions.begin, slices.back().positions.end};
  const StreamCopy copy(all.size() * row_bytes_);
  for (const Slab& slab : slabs_) {
    if (slab.host == nullptr) {
      WriteStaged(slab, lane, slices, prefix);
      continue;
    }
    for (const RowSlice& slice : slices) {
      const std::byte* rows = slice.block.data() + (prefix + slab.prefix) * slice.block_rows +
                              slice.first_row * slab.row_bytes;
      for (const Run& run : Runs(slice.positions))
        copy(slab.host + Offset(slab, lane, run.cell), rows + run.offset * slab.row_bytes,
             run.count * slab.row_bytes);
    }
  }
}

// Device memory: one transfer a run of cells, not one a slice.
void CellCache::WriteStaged(const Slab& slab, SeqId lane, std::span<const RowSlice> slices,
                            std::size_t prefix) {
  if (slices.empty()) return;
  const PosRange all{slices.front().positions.begin, slices.back().positions.end};
  staging_.resize(all.size() * slab.row_bytes);
  for (const RowSlice& slice : slices) {
    const std::byte* rows = slice.block.data() + (prefix + slab.prefix) * slice.block_rows +
                            slice.first_row * slab.row_bytes;
    std::memcpy(staging_.data() + (slice.positions.begin - all.begin) * slab.row_bytes, rows,
                slice.positions.size() * slab.row_bytes);
  }
  for (const Run& run : Runs(all))
    ggml_backend_tensor_set(slab.tensor, staging_.data() + run.offset * slab.row_bytes,
                            Offset(slab, lane, run.cell), run.count * slab.row_bytes);
}

void CellCache::Copy(SeqId from, SeqId to, PosRange positions) {
  const std::vector<Run> runs = Runs(positions);
  const StreamCopy copy(positions.size() * row_bytes_);
  for (const Slab& slab : slabs_) {
    for (const Run& run : runs) {
      const std::size_t source = Offset(slab, from, run.cell);
      const std::size_t target = Offset(slab, to, run.cell);
      const std::size_t bytes = run.count * slab.row_bytes;
      if (slab.host != nullptr) {
        copy(slab.host + target, slab.host + source, bytes);
        continue;
      }
      staging_.resize(bytes);
      ggml_backend_tensor_get(slab.tensor, staging_.data(), source, bytes);
      ggml_backend_tensor_set(slab.tensor, staging_.data(), target, bytes);
    }
  }
}

}  // namespace skippy::llama
