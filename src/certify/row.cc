#include "certify/row.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace skippy::certify {
namespace {

constexpr std::array<std::string_view, 4> kVerdictNames = {"bit", "token", "fail",
                                                           "not_applicable"};
constexpr std::array<std::string_view, 3> kPromiseNames = {"both", "bit", "token"};

template <class Enum, std::size_t n>
std::optional<Enum> Find(const std::array<std::string_view, n>& names, std::string_view name) {
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) return std::nullopt;
  return static_cast<Enum>(it - names.begin());
}

}  // namespace

std::string_view VerdictName(Verdict verdict) {
  return kVerdictNames.at(static_cast<std::size_t>(verdict));
}
std::optional<Verdict> ParseVerdict(std::string_view name) {
  return Find<Verdict>(kVerdictNames, name);
}
std::string_view PromiseName(Promise promise) {
  return kPromiseNames.at(static_cast<std::size_t>(promise));
}
std::optional<Promise> ParsePromise(std::string_view name) {
  return Find<Promise>(kPromiseNames, name);
}
Promise PromiseOf(Exactness exactness) {
  return exactness == Exactness::kBit ? Promise::kBit : Promise::kToken;
}

std::string RowName(const Row& row) {
  std::string name = row.group;
  for (const std::string* part : {&row.tier, &row.scenario, &row.variation}) {
    if (!part->empty()) name += " / " + *part;
  }
  if (row.promise != Promise::kBoth) name += fmt::format(" ({})", PromiseName(row.promise));
  return name;
}

Verdict Overall(const std::vector<Row>& rows, Exactness exactness) {
  Verdict overall = Verdict::kBit;
  bool any = false;
  for (const Row& row : rows) {
    const bool speaks = row.promise == Promise::kBoth || row.promise == PromiseOf(exactness);
    if (!speaks || row.reference || row.verdict == Verdict::kNotApplicable) continue;
    any = true;
    overall = std::max(overall, row.verdict);
  }
  return any ? overall : Verdict::kFail;
}

bool Keeps(Verdict verdict, Exactness exactness) {
  return verdict == Verdict::kBit || (verdict == Verdict::kToken && exactness == Exactness::kToken);
}

}  // namespace skippy::certify
