// A stage's certificate as JSON and as text.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "stage/certify_stage.h"

namespace skippy::stage {
namespace {

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::vector<double> Ratios(const StageCertificate& certificate) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < certificate.restore_ms.size(); ++i)
    ratios.push_back(certificate.recompute_ms[i] / certificate.restore_ms[i]);
  return ratios;
}

}  // namespace

std::string ToJson(const StageCertificate& certificate) {
  nlohmann::ordered_json json{{"schema", "skippy-stage-certificate"}, {"version", 1}};
  json["package"] = nlohmann::ordered_json::parse(ToJson(certificate.package));
  json["runtime_build"] = certificate.runtime_build;
  json["input"] = {{"kind", InputKindName(certificate.input)},
                   {"description", certificate.input_description}};
  json["passed"] = certificate.Passed();
  for (const LaneEvidence& lane : certificate.lanes)
    json["lanes"].push_back(
        {{"name", lane.name}, {"verdict", LaneVerdictName(lane.verdict)}, {"detail", lane.detail}});
  json["prefix_tokens"] = certificate.prefix;
  json["state_bytes"] = certificate.state_bytes;
  json["recompute_ms"] = certificate.recompute_ms;
  json["restore_ms"] = certificate.restore_ms;
  json["times_faster"] = Median(Ratios(certificate));
  return json.dump(2) + "\n";
}

std::string ToText(const StageCertificate& certificate) {
  const Manifest& package = certificate.package;
  std::string text = fmt::format("stage {} of {} ({}), {:.1f} MiB\ninput: {}, {}\n",
                                 ToString(package.layers), package.model.name, package.model.family,
                                 static_cast<double>(package.bytes) / (1U << 20U),
                                 InputKindName(certificate.input), certificate.input_description);
  for (const LaneEvidence& lane : certificate.lanes)
    text +=
        fmt::format("  {:<20} {:<9} {}\n", lane.name, LaneVerdictName(lane.verdict), lane.detail);
  const std::vector<double> ratios = Ratios(certificate);
  if (!ratios.empty()) {
    const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
    text += fmt::format(
        "  {} tokens and one more: {:.2f} ms computed, {:.2f} ms restored ({} bytes): {:.1f} times "
        "faster ({:.1f} to {:.1f} in {} rounds)\n",
        certificate.prefix, Median(certificate.recompute_ms), Median(certificate.restore_ms),
        certificate.state_bytes, Median(ratios), *low, *high, ratios.size());
  }
  return text + (certificate.Passed() ? "certified\n" : "NOT certified\n");
}

}  // namespace skippy::stage
