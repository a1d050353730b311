// "Did you mean": the known flag nearest to an unknown one. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skippy::cli {

// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours cost 1.
std::size_t EditDistance(std::string_view a, std::string_view b);

// Empty when none is near enough to be a likely meaning.
std::optional<std::string> NearestFlag(std::string_view unknown,
                                       const std::vector<std::string>& known);

}  // namespace skippy::cli
