#include "llama/full_state.h"

#include <fmt/format.h>
#include <llama.h>

#include <cstdint>
#include <exception>

#include "llama/log_hook.h"

namespace skippy::llama {

Result<std::vector<std::byte>> ReadFullState(llama_context* context, SeqId lane) try {
  const auto sequence = static_cast<llama_seq_id>(lane.value);
  ClearErrors();
  std::vector<std::byte> state(llama_state_seq_get_size(context, sequence));
  const std::size_t written = llama_state_seq_get_data(
      context, reinterpret_cast<std::uint8_t*>(state.data()), state.size(), sequence);
  if (written == 0 || written != state.size())
    return Err(ErrorCode::kInternal, fmt::format("llama.cpp wrote {} of {} bytes of state: {}",
                                                 written, state.size(), ErrorLines()));
  return state;
} catch (const std::exception& error) {
  return Err(ErrorCode::kInternal, fmt::format("full state: {}", error.what()));
}

Result<Pos> WriteFullState(llama_context* context, SeqId lane, ByteSpan state) try {
  const auto sequence = static_cast<llama_seq_id>(lane.value);
  ClearErrors();
  const std::size_t read = llama_state_seq_set_data(
      context, reinterpret_cast<const std::uint8_t*>(state.data()), state.size(), sequence);
  if (read != state.size())
    return Err(ErrorCode::kInternal, fmt::format("llama.cpp read {} of {} bytes of state: {}", read,
                                                 state.size(), ErrorLines()));
  return static_cast<Pos>(llama_memory_seq_pos_max(llama_get_memory(context), sequence) + 1);
} catch (const std::exception& error) {
  return Err(ErrorCode::kInternal, fmt::format("full state: {}", error.what()));
}

}  // namespace skippy::llama
