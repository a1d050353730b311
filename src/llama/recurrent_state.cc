#include "llama/recurrent_state.h"

#include <ggml-backend.h>
#include <llama-io.h>
#include <llama-memory-recurrent.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace skippy::llama {
namespace {

class RowRecorder final : public llama_io_write_i {
 public:
  void write(const void* /*src*/, std::size_t size) override { written_ += size; }
  void write_tensor(ggml_tensor* tensor, std::size_t /*offset*/, std::size_t size) override {
    rows.emplace_back(tensor, size);
    written_ += size;
  }
  std::size_t n_bytes() override { return written_; }

  std::vector<std::pair<ggml_tensor*, std::size_t>> rows;

 private:
  std::size_t written_ = 0;
};

llama_seq_id Sequence(SeqId lane) { return static_cast<llama_seq_id>(lane.value); }

}  // namespace

RecurrentState::RecurrentState(llama_memory_recurrent* memory) : memory_(memory) {
  FindRow(SeqId{0}, 1);
  RowRecorder recorder;
  memory_->state_write(recorder, 0, 0);
  Drop(SeqId{0});
  for (const auto& [tensor, bytes] : recorder.rows) {
    if (bytes == 0) continue;
    Row row{tensor, bytes, nullptr};
    if (ggml_backend_buffer_is_host(tensor->buffer))
      row.host = static_cast<std::byte*>(tensor->data);
    rows_.push_back(row);
    bytes_ += bytes;
  }
}

std::vector<TensorShare> RecurrentState::Shares() const {
  std::vector<TensorShare> shares;
  for (const Row& row : rows_) {
    // Not by their names: some graphs give these tensors others.
    std::optional<std::uint32_t> layer;
    for (const auto* tensors : {&memory_->r_l, &memory_->s_l, &memory_->p_l}) {
      const auto found = std::find(tensors->begin(), tensors->end(), row.tensor);
      if (found != tensors->end()) layer = static_cast<std::uint32_t>(found - tensors->begin());
    }
    shares.push_back({ggml_get_name(row.tensor), layer, row.bytes});
  }
  return shares;
}

// Gives the lane a row of its own, marked as the state after position end - 1.
bool RecurrentState::FindRow(SeqId lane, Pos end) {
  llama_seq_id sequence = Sequence(lane);
  llama_seq_id* sequences = &sequence;
  llama_pos pos = static_cast<llama_pos>(end) - 1;
  int32_t sequence_count = 1;
  llama_ubatch batch{};
  batch.b_equal_seqs = 1;
  batch.n_tokens = batch.n_seq_tokens = batch.n_seqs = batch.n_seqs_unq = batch.n_pos = 1;
  batch.pos = &pos;
  batch.n_seq_id = &sequence_count;
  batch.seq_id = &sequences;
  batch.seq_id_unq = &sequence;
  if (!memory_->find_slot(batch)) return false;
  const auto row = memory_->cells[lane.value].tail;
  if (row < 0) return false;
  memory_->cells[static_cast<std::size_t>(row)].src =
      row;  // read this row at the next decode, not a zeroed one
  return true;
}

bool RecurrentState::Export(SeqId lane, MutableByteSpan out) const {
  const auto tail = memory_->cells[lane.value].tail;
  if (tail < 0) return false;
  const auto& cell = memory_->cells[static_cast<std::size_t>(tail)];
  const auto index = static_cast<std::size_t>(cell.src >= 0 ? cell.src : tail);
  std::byte* at = out.data();
  for (const Row& row : rows_) {
    if (row.host != nullptr) {
      std::memcpy(at, row.host + index * row.bytes, row.bytes);
    } else {
      ggml_backend_tensor_get(row.tensor, at, index * row.bytes, row.bytes);
    }
    at += row.bytes;
  }
  return true;
}

bool RecurrentState::Import(SeqId lane, Pos end, ByteSpan state) {
  Drop(lane);
  if (!FindRow(lane, end)) return false;
  const auto index = static_cast<std::size_t>(memory_->cells[lane.value].tail);
  const std::byte* at = state.data();
  for (const Row& row : rows_) {
    if (row.host != nullptr) {
      std::memcpy(row.host + index * row.bytes, at, row.bytes);
    } else {
      ggml_backend_tensor_set(row.tensor, at, index * row.bytes, row.bytes);
    }
    at += row.bytes;
  }
  return true;
}

void RecurrentState::Drop(SeqId lane) { memory_->seq_rm(Sequence(lane), -1, -1); }

bool RecurrentState::InPlace(SeqId lane, Pos end) const {
  return memory_->seq_pos_max(Sequence(lane)) == static_cast<llama_pos>(end) - 1;
}

void RecurrentState::MoveTo(SeqId lane, Pos end) {
  const auto tail = memory_->cells[lane.value].tail;
  if (tail >= 0)
    memory_->cells[static_cast<std::size_t>(tail)].pos = static_cast<llama_pos>(end) - 1;
}

}  // namespace skippy::llama
