// What a request answered, and how two answers to the same request compare.
//
// Pure. Cost: one pass over the logits of both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "certify/row.h"
#include "engine/request.h"
#include "runtime/compare_floats.h"
#include "skippy/digest.h"
#include "skippy/types.h"

namespace skippy::certify {

struct Answer {
  std::vector<Token> tokens;
  std::vector<std::vector<float>> logits;  // what each token was sampled from
  engine::GenerationReport report;
  // Of all rows and the snapshot that the lane held at the end, as exported; none if unknown.
  std::optional<Digest> state;
};

struct Comparison {
  bool same_tokens = false;
  bool same_bits = false;  // implies same_tokens
  // The lanes' states differ although the logits do not: a later token would see it.
  bool other_state = false;
  // Step whose logits differ first: the token sampled there is the step-th of the answer.
  std::optional<std::size_t> first_step;
  std::optional<std::size_t> first_token;  // step that sampled another token
  double largest_difference = 0;           // over the steps before and at first_token
  double smallest_margin = 0;              // of the cold run's steps
  // At first_token: the cold run's best logit minus its logit of the token the other run took.
  double margin_at_difference = 0;
  std::size_t compared = 0;
};
Comparison Compare(const Answer& cold, const Answer& tested);

using runtime::LargestDifference;
using runtime::SameBits;
// Best minus second best.
double Margin(std::span<const float> logits);

// Writes the comparison into the row and decides its verdict. `promise`: kBit and kBoth pass on
// equal bits only, of the logits and, where both are known, of the state. `noise`: the largest
// logit difference that another chunk schedule makes in cold runs; asked for only when tokens
// differ. `sampled`: tokens were drawn, not the arg max, so any noise may draw another one.
template <class Noise>
void Judge(Row& row, const Comparison& comparison, bool sampled, Noise noise);

// Judge's parts.
void FillFigures(Row& row, const Comparison& comparison);
bool IsTie(const Comparison& comparison, bool sampled, double noise);

template <class Noise>
void Judge(Row& row, const Comparison& comparison, bool sampled, Noise noise) {
  FillFigures(row, comparison);
  row.verdict = Verdict::kFail;
  if (comparison.same_bits && !(comparison.other_state && row.promise != Promise::kToken)) {
    row.verdict = Verdict::kBit;
  } else if (comparison.same_bits) {
    row.reason = "the logits are the same, but the state behind them is not";
  } else if (row.promise != Promise::kToken) {
    row.reason = comparison.same_tokens ? "the logits differ" : "the tokens differ";
  } else if (comparison.same_tokens) {
    row.verdict = Verdict::kToken;
  } else if (const double bound = noise(); IsTie(comparison, sampled, bound)) {
    row.verdict = Verdict::kToken;
    row.tie = true;
    row.reason = sampled ? "sampling drew another token within the schedule noise"
                         : "a tie flips: the two best logits lie within the schedule noise";
  } else {
    row.reason = "the tokens differ";
  }
}

}  // namespace skippy::certify
