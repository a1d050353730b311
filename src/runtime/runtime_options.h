// The settings of a runtime: what its state, and so every certificate, depends on.
#pragma once

#include <cstdint>
#include <string>

namespace skippy::runtime {

inline constexpr std::uint32_t kMaxLanes = 64;

// Zero: the runtime's own default. RuntimeInfo tells what became of it.
struct RuntimeOptions {
  std::uint32_t context = 0;  // positions a lane
  std::uint32_t lanes = 1;
  std::uint32_t chunk = 0;          // most tokens of one prefill call; the grid
  std::uint32_t threads = 0;        // that compute a decode step
  std::uint32_t threads_batch = 0;  // that compute a prefill; 0: as threads
  bool flash_attention = true;
  bool swa_full = false;       // full-size sliding-window caches: a cut may go back to any row held
  std::string type_k = "f16";  // of the cached keys: f32, f16, bf16, q8_0, q4_0, ...
  std::string type_v = "f16";

  bool operator==(const RuntimeOptions&) const = default;
};

}  // namespace skippy::runtime
