#include "stage/split_report.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

namespace skippy::stage {
namespace {

std::string WhatGoesThrough(const Manifest& manifest) {
  if (manifest.kind == "vocabulary") return "tokenizer and embedding rows";
  return fmt::format("{} -> {}", manifest.input.node.empty() ? "rows" : manifest.input.node,
                     manifest.output.node.empty() ? "logits" : manifest.output.node);
}

std::string CheckText(const SplitOutcome& outcome) {
  if (!outcome.check) return fmt::format("not checked: {}\n", outcome.not_checked);
  const CheckResult& check = *outcome.check;
  if (check.Passed())
    return fmt::format("checked: {} rows of logits are the whole model's, bit by bit\n",
                       check.compared);
  return fmt::format(
      "NOT EQUAL: {} of {} rows of logits are the whole model's; the first other one is at "
      "position {}, the largest difference {:g}. Do not use these stages.\n",
      check.equal, check.compared, check.first_difference, check.largest_difference);
}

}  // namespace

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
  if (outcome.check) {
    json["check"] = {{"passed", outcome.check->Passed()},
                     {"rows", outcome.check->compared},
                     {"equal", outcome.check->equal},
                     {"largest_difference", outcome.check->largest_difference}};
  } else {
    json["check"] = nullptr;
    json["not_checked"] = outcome.not_checked;
  }
  return json.dump(2) + "\n";
}

}  // namespace skippy::stage
