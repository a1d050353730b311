#include "stage/split_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace skippy::stage {
namespace {

std::string WhatGoesThrough(const Manifest& manifest) {
  if (manifest.kind == "vocabulary") return "tokenizer and embedding rows";
  return fmt::format("{} -> {}", manifest.input.node.empty() ? "rows" : manifest.input.node,
                     manifest.output.node.empty() ? "logits" : manifest.output.node);
}

// All checks in one.
CheckResult Sum(const SplitOutcome& outcome) {
  CheckResult sum;
  for (const Check& check : outcome.checks) {
    sum.positions = std::max(sum.positions, check.result.positions);
    sum.compared += check.result.compared;
    sum.equal += check.result.equal;
    sum.largest_difference = std::max(sum.largest_difference, check.result.largest_difference);
  }
  return sum;
}

std::string PassedText(const SplitOutcome& outcome) {
  const CheckResult sum = Sum(outcome);
  if (!outcome.alone)
    return fmt::format(
        "checked: {} rows of logits of {} positions are the whole model's, bit by bit\n",
        sum.compared, sum.positions);
  return fmt::format(
      "checked: {} alone, {} rows of {} positions are the model's, bit by bit, where the other "
      "layers are hollow\n",
      outcome.checks.size() == 1 ? "the stage" : fmt::format("{} stages", outcome.checks.size()),
      sum.compared, sum.positions);
}

std::string CheckText(const SplitOutcome& outcome) {
  std::string text;
  for (const Check& check : outcome.checks) {
    const CheckResult& result = check.result;
    if (result.Passed()) continue;
    text += fmt::format(
        "NOT EQUAL: {}{} of {} rows are the model's; the first other one is at position {}, the "
        "largest difference {:g}. Do not use {}.\n",
        outcome.alone ? fmt::format("stage {}: ", ToString(check.layers)) : "", result.equal,
        result.compared, result.first_difference, result.largest_difference,
        outcome.alone ? "it" : "these stages");
  }
  if (!outcome.checks.empty() && outcome.Passed()) text = PassedText(outcome);
  if (!outcome.not_checked.empty()) text += fmt::format("not checked: {}\n", outcome.not_checked);
  return text;
}

}  // namespace

bool SplitOutcome::Passed() const {
  return std::all_of(checks.begin(), checks.end(),
                     [](const Check& check) { return check.result.Passed(); });
}

std::string ToText(const SplitOutcome& outcome) {
  std::string text;
  for (const Package& package : outcome.packages) {
    const Manifest& manifest = package.manifest;
    text += fmt::format("{:<24} {:8.1f} MiB  {}{}\n",
                        std::filesystem::path(package.folder).filename().string(),
                        static_cast<double>(manifest.bytes) / (1U << 20U),
                        WhatGoesThrough(manifest), package.was_there ? ", was there" : "");
    for (const std::string& added : manifest.added) text += fmt::format("{:24} {}\n", "", added);
  }
  return text + CheckText(outcome);
}

std::string ToJson(const SplitOutcome& outcome) {
  nlohmann::ordered_json json{{"schema", "skippy-stage-split"}, {"version", 1}};
  for (const Package& package : outcome.packages)
    json["packages"].push_back(
        {{"folder", package.folder},
         {"was_there", package.was_there},
         {"manifest", nlohmann::ordered_json::parse(ToJson(package.manifest))}});
  json["check"] = nullptr;
  if (!outcome.checks.empty()) {
    const CheckResult sum = Sum(outcome);
    json["check"] = {{"against", outcome.alone ? "hollow model" : "whole model"},
                     {"passed", outcome.Passed()},
                     {"positions", sum.positions},
                     {"rows", sum.compared},
                     {"equal", sum.equal},
                     {"largest_difference", sum.largest_difference}};
    for (const Check& check : outcome.checks)
      if (outcome.alone)
        json["check"]["stages"].push_back({{"layers", ToString(check.layers)},
                                           {"rows", check.result.compared},
                                           {"equal", check.result.equal}});
  }
  if (!outcome.not_checked.empty()) json["not_checked"] = outcome.not_checked;
  return json.dump(2) + "\n";
}

}  // namespace skippy::stage
