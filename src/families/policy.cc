#include "families/policy.h"

#include <utility>

namespace skippy::families {

Selection SelectPolicy(const MemoryShape& shape, std::string off_reason) {
  if (!off_reason.empty()) return {PayloadPolicy::kOff, std::move(off_reason)};
  if (shape.HasSnapshot()) return {PayloadPolicy::kKvRecurrent, {}};
  if (shape.HasKv() || shape.HasWindow()) return {PayloadPolicy::kResidentKv, {}};
  return {PayloadPolicy::kOff, "this model keeps no state"};
}

std::string MemoryWords(const MemoryShape& shape) {
  std::string words;
  const auto add = [&](bool there, const char* what) {
    if (there) words += (words.empty() ? "" : ", ") + std::string(what);
  };
  add(shape.HasKv(), "rows of every token");
  add(shape.HasWindow(), "a sliding window");
  add(shape.HasSnapshot(), "a state of constant size");
  return words.empty() ? "nothing" : words;
}

std::string GranularityWords(const MemoryShape& shape, PayloadPolicy policy) {
  if (policy == PayloadPolicy::kOff) return "none";
  if (shape.HasSnapshot()) return "where a snapshot was taken";
  return shape.HasWindow() ? "any token whose last window is stored" : "any token";
}

}  // namespace skippy::families
