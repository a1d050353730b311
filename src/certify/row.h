// A lane of evidence: one thing that was tried, how it was to be served, and what came of it.
//
// Plain values. A row passes only if the tier it names really served the request; a row whose tier
// did nothing is kFail ("not exercised"), never a pass.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skippy/prefix_cache.h"
#include "skippy/types.h"

namespace skippy::certify {

// Ordered from the strongest word to the weakest.
enum class Verdict : std::uint8_t {
  kBit = 0,        // all logits memcmp-equal to the cold run's
  kToken,          // the cold run's greedy tokens, or all but for a tie (Row::tie)
  kFail,           // neither
  kNotApplicable,  // this memory, model or setting has no such thing; Row::reason says why
};
std::string_view VerdictName(Verdict verdict);
std::optional<Verdict> ParseVerdict(std::string_view name);

// Which promise a row is evidence for. kBoth: work below the engine, which has no exactness.
enum class Promise : std::uint8_t { kBoth = 0, kBit, kToken };
std::string_view PromiseName(Promise promise);
std::optional<Promise> ParsePromise(std::string_view name);
Promise PromiseOf(Exactness exactness);

struct Row {
  std::string group;      // e.g. "tier matrix"
  std::string tier;       // e.g. "host pages"; empty where it means nothing
  std::string scenario;   // e.g. "rewind 5"
  std::string variation;  // settings that differ from the certified ones; empty: none
  Promise promise = Promise::kBoth;
  // Evidence that is told but does not count in the overall verdict (full_state: no production path
  // uses it).
  bool reference = false;

  Verdict verdict = Verdict::kFail;
  std::string reason;  // why it failed or does not apply, or a remark
  // Position in the text whose logits differ first; a byte offset in a state round trip.
  std::optional<std::uint64_t> first_difference;
  double largest_difference = 0;  // of any logit, while the texts were equal
  double smallest_margin = 0;     // best minus second best logit, over the cold run's steps
  bool tie = false;  // tokens differ where the cold run's two best lay within the schedule noise
  std::uint32_t compared = 0;  // steps whose logits were compared
  // How the prompt under test was served.
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;
  std::uint32_t evaluated_tokens = 0;

  bool operator==(const Row&) const = default;
};

// "tier matrix / host pages / rewind 5 (bit)".
std::string RowName(const Row& row);

// The strongest word that holds for all rows that speak for this exactness, references left out;
// kFail when a row failed or none applies.
Verdict Overall(const std::vector<Row>& rows, Exactness exactness);

// Whether `verdict` is what `exactness` promises.
bool Keeps(Verdict verdict, Exactness exactness);

}  // namespace skippy::certify
