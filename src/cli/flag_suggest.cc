#include "cli/flag_suggest.h"

#include <algorithm>

namespace skippy::cli {

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

std::optional<std::string> NearestFlag(std::string_view unknown,
                                       const std::vector<std::string>& known) {
  constexpr std::size_t kLongest = 64;
  if (unknown.size() > kLongest) return std::nullopt;
  std::optional<std::string> nearest;
  // A third of the letters may be wrong.
  std::size_t best = std::max<std::size_t>(1, unknown.size() / 3) + 1;
  for (const std::string& flag : known) {
    const std::size_t distance = EditDistance(unknown, flag);
    if (distance < best) {
      best = distance;
      nearest = flag;
    }
  }
  if (nearest) return nearest;
  // "--cache" for "--cache-ram": a flag that begins with what was typed.
  for (const std::string& flag : known) {
    if (unknown.size() > 3 && flag.starts_with(unknown)) return flag;
  }
  return std::nullopt;
}

}  // namespace skippy::cli
