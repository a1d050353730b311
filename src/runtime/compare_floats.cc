#include "runtime/compare_floats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace skippy::runtime {

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

double LargestDifference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    const double difference = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (std::isnan(difference)) {
      if (std::isnan(a[i]) != std::isnan(b[i])) return std::numeric_limits<double>::infinity();
      continue;
    }
    largest = std::max(largest, difference);
  }
  return largest;
}

}  // namespace skippy::runtime
