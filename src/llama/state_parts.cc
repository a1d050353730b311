#include "llama/state_parts.h"

#include <fmt/format.h>

#include <charconv>

namespace skippy::llama {

std::optional<std::uint32_t> LayerOfName(std::string_view name) {
  constexpr std::string_view kMark = "_l";
  const std::size_t at = name.rfind(kMark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = name.substr(at + kMark.size());
  std::uint32_t layer = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), layer);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return layer;
}

Result<std::vector<runtime::StatePart>> PartsOf(std::span<const TensorShare> shares) {
  std::vector<runtime::StatePart> parts;
  for (const TensorShare& share : shares) {
    if (!share.layer)
      return Err(ErrorCode::kUnsupported,
                 fmt::format("llama.cpp's memory has a tensor '{}': which layer it belongs to "
                             "cannot be told",
                             share.name));
    if (parts.empty() || parts.back().layer != *share.layer) parts.push_back({*share.layer, 0});
    parts.back().bytes += share.bytes;
  }
  return parts;
}

}  // namespace skippy::llama
