#include "skippy/cache_options.h"

#include <fmt/format.h>

namespace skippy {
namespace {

// Products of a row size and a position (32 bits) must stay far from the end of 64 bits.
constexpr std::uint64_t kMaxRowBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxUnitBytes = std::uint64_t{1} << 40;
constexpr std::uint32_t kMaxPageTokens = 1U << 16;

}  // namespace

std::vector<std::string> CacheOptions::Validate() const {
  std::vector<std::string> problems;
  const auto require = [&](bool ok, std::string problem) {
    if (!ok) problems.push_back(std::move(problem));
  };
  require(page_tokens >= 1 && page_tokens <= kMaxPageTokens,
          fmt::format("page_tokens is {}, must be 1 to {}", page_tokens, kMaxPageTokens));
  require(max_entries >= 1, "max_entries is 0, must be at least 1");
  require(digest != nullptr, "digest is null");
  require(eviction == EvictionPolicyKind::kLru || eviction == EvictionPolicyKind::kBenefitPerByte,
          fmt::format("eviction is {}, an unknown policy", static_cast<int>(eviction)));
  require(shape.kv_row_bytes <= kMaxRowBytes,
          fmt::format("shape.kv_row_bytes is {}, at most {}", shape.kv_row_bytes, kMaxRowBytes));
  require(shape.window_row_bytes <= kMaxRowBytes,
          fmt::format("shape.window_row_bytes is {}, at most {}", shape.window_row_bytes,
                      kMaxRowBytes));
  require(
      shape.snapshot_bytes <= kMaxUnitBytes,
      fmt::format("shape.snapshot_bytes is {}, at most {}", shape.snapshot_bytes, kMaxUnitBytes));
  require(shape.logits_bytes <= kMaxUnitBytes,
          fmt::format("shape.logits_bytes is {}, at most {}", shape.logits_bytes, kMaxUnitBytes));
  require(!shape.HasWindow() || shape.window_tokens > 0,
          "shape has window rows but window_tokens is 0");
  require(
      policy == PayloadPolicy::kOff || shape.HasKv() || shape.HasWindow() || shape.HasSnapshot(),
      "shape has no component: nothing could be restored");
  return problems;
}

}  // namespace skippy
