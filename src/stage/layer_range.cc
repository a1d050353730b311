#include "stage/layer_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace skippy::stage {
namespace {

std::optional<std::uint32_t> Number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<LayerRange> ParseRange(std::string_view text, std::uint32_t layers) {
  const std::size_t dots = text.find("..");
  const auto begin = Number(text.substr(0, dots));
  const auto end = dots == std::string_view::npos ? std::nullopt : Number(text.substr(dots + 2));
  if (!begin || !end)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}' is no range of layers; one is written 0..10, which are the layers "
                           "0 to 9",
                           text));
  if (*begin >= *end)
    return Err(ErrorCode::kInvalidArgument, fmt::format("the range {} holds no layer", text));
  if (*end > layers)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("the range {} goes beyond the model, which has the layers 0..{}", text,
                           layers));
  return LayerRange{*begin, *end};
}

// Takes layers as long as they weigh at most `most`. None: a layer is heavier alone.
std::optional<std::vector<LayerRange>> Fill(std::uint64_t most, const Weights& bytes) {
  const auto count = static_cast<std::uint32_t>(bytes.layers.size());
  std::vector<LayerRange> ranges;
  std::uint64_t weight = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t own =
        bytes.layers[i] + (i == 0 ? bytes.first : 0) + (i + 1 == count ? bytes.last : 0);
    if (own > most) return std::nullopt;
    if (ranges.empty() || weight + own > most) {
      ranges.push_back({i, i});
      weight = 0;
    }
    weight += own;
    ranges.back().end = i + 1;
  }
  return ranges;
}

// The heaviest layer, with what its end of the model carries.
std::uint64_t Heaviest(const Weights& bytes) {
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < bytes.layers.size(); ++i)
    most = std::max(most, bytes.layers[i] + (i == 0 ? bytes.first : 0) +
                              (i + 1 == bytes.layers.size() ? bytes.last : 0));
  return most;
}

}  // namespace

Result<std::vector<LayerRange>> ParseRanges(std::string_view text, std::uint32_t layers) {
  std::vector<LayerRange> ranges;
  while (true) {
    const std::size_t comma = text.find(',');
    SKIPPY_TRY(const LayerRange range, ParseRange(text.substr(0, comma), layers));
    if (!ranges.empty() && range.begin != ranges.back().end)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("{} between {} and {}: each range begins where the one before ends",
                             range.begin > ranges.back().end ? "a gap" : "an overlap",
                             ToString(ranges.back()), ToString(range)));
    ranges.push_back(range);
    if (comma == std::string_view::npos) return ranges;
    text.remove_prefix(comma + 1);
  }
}

Result<std::vector<LayerRange>> CutInto(std::uint32_t stages, const Weights& bytes) {
  const auto count = static_cast<std::uint32_t>(bytes.layers.size());
  if (stages < 1 || stages > count)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("{} stages cannot be cut from {} layers", stages, count));
  // The least weight that fits: filling greedily is optimal for a given weight.
  std::uint64_t low = Heaviest(bytes);
  std::uint64_t high = bytes.first + bytes.last;
  for (const std::uint64_t layer : bytes.layers) high += layer;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    const auto ranges = Fill(middle, bytes);
    if (ranges && ranges->size() <= stages) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  std::vector<LayerRange> ranges = Fill(low, bytes).value_or(std::vector<LayerRange>());
  // Filling may need fewer: then the longest ones are halved, which makes none heavier.
  while (ranges.size() < stages) {
    const auto longest =
        std::max_element(ranges.begin(), ranges.end(),
                         [](LayerRange a, LayerRange b) { return a.size() < b.size(); });
    const LayerRange whole = *longest;
    longest->end = whole.begin + whole.size() / 2;
    ranges.insert(longest + 1, {longest->end, whole.end});
  }
  return ranges;
}

Result<std::vector<LayerRange>> CutBelow(std::uint64_t most, const Weights& bytes) {
  if (auto ranges = Fill(most, bytes)) return std::move(*ranges);
  return Err(ErrorCode::kInvalidArgument,
             fmt::format("the heaviest layer, with what its end of the model carries, takes {} "
                         "bytes: more than the {} bytes that a stage may have",
                         Heaviest(bytes), most));
}

}  // namespace skippy::stage
