#include "certify/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace skippy::certify {

double Margin(std::span<const float> logits) {
  double best = -std::numeric_limits<double>::infinity();
  double second = best;
  for (const float logit : logits) {
    const double value = static_cast<double>(logit);
    if (value > best) {
      second = best;
      best = value;
    } else if (value > second) {
      second = value;
    }
  }
  const double margin = best - second;
  return std::isfinite(margin) ? margin : 0;
}

Comparison Compare(const Answer& cold, const Answer& tested) {
  Comparison result;
  const std::size_t steps = std::min(cold.tokens.size(), tested.tokens.size());
  result.same_tokens = cold.tokens == tested.tokens && cold.report.finish == tested.report.finish;
  result.smallest_margin = std::numeric_limits<double>::infinity();
  for (const auto& logits : cold.logits)
    result.smallest_margin = std::min(result.smallest_margin, Margin(logits));
  if (!std::isfinite(result.smallest_margin)) result.smallest_margin = 0;
  for (std::size_t i = 0; i < steps && !result.first_token; ++i) {
    ++result.compared;
    if (!SameBits(cold.logits[i], tested.logits[i])) {
      if (!result.first_step) result.first_step = i;
      result.largest_difference =
          std::max(result.largest_difference, LargestDifference(cold.logits[i], tested.logits[i]));
    }
    if (cold.tokens[i] == tested.tokens[i]) continue;
    result.first_token = i;
    const auto& logits = cold.logits[i];
    result.margin_at_difference =
        static_cast<double>(logits[static_cast<std::size_t>(cold.tokens[i])]) -
        static_cast<double>(logits[static_cast<std::size_t>(tested.tokens[i])]);
  }
  if (!result.same_tokens && !result.first_step) result.first_step = steps;
  result.same_bits = result.same_tokens && !result.first_step && !cold.tokens.empty();
  result.other_state = cold.state && tested.state && *cold.state != *tested.state;
  return result;
}

void FillFigures(Row& row, const Comparison& comparison) {
  if (comparison.first_step)
    row.first_difference = std::uint64_t{row.prompt_tokens} + *comparison.first_step;
  row.largest_difference = comparison.largest_difference;
  row.smallest_margin = comparison.smallest_margin;
  row.compared = static_cast<std::uint32_t>(comparison.compared);
}

// Both must hold: the flipped pair lay within what another cold schedule changes, and the logits
// are no further off than two schedules may be from each other.
bool IsTie(const Comparison& comparison, bool sampled, double noise) {
  if (!comparison.first_token || comparison.largest_difference > 2 * noise) return false;
  return sampled || std::fabs(comparison.margin_at_difference) <= noise;
}

}  // namespace skippy::certify
