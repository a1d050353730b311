// What the wires do to a model's logits, as JSON and as text.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "stage/wire_table.h"

namespace skippy::stage {

std::string ToJson(const WireTable& table) {
  nlohmann::ordered_json json{{"schema", "skippy-stage-wires"}, {"version", 1}};
  json["model"] = {{"name", table.model.name},
                   {"architecture", table.model.architecture},
                   {"family", table.model.family},
                   {"layers", table.model.layers},
                   {"blake3", table.model.digest.Hex()}};
  json["runtime_build"] = table.runtime_build;
  for (const LayerRange& layers : table.stages)
    json["stages"].push_back({layers.begin, layers.end});
  json["text"] = table.text;
  json["tokens"] = table.tokens;
  json["positions"] = table.positions;
  json["passed"] = table.Passed();
  for (const WireRow& row : table.rows) {
    nlohmann::ordered_json& told = json["wires"].emplace_back();
    told = {{"wire", row.wire}, {"row_bytes", row.bytes}};
    if (!row.refused.empty()) {
      told["refused"] = row.refused;
      continue;
    }
    told["exact"] = row.exact;
    told["nmse"] = row.nmse;
    told["same_token"] = row.same_token;
    told["kl_nats"] = row.divergence;
  }
  return json.dump(2) + "\n";
}

std::string ToText(const WireTable& table) {
  std::string text = fmt::format("{} ({}) in {} stages:", table.model.name, table.model.family,
                                 table.stages.size());
  for (const LayerRange& layers : table.stages) text += fmt::format(" {}", ToString(layers));
  text += fmt::format(
      "\n{} tokens of {}; logits of the last {} positions against those of the untouched rows\n"
      "  {:<8} {:>11}  {:>9}  {:>10}  {:>9}\n",
      table.tokens, table.text, table.positions, "wire", "bytes a row", "NMSE", "same token",
      "KL, nats");
  for (const WireRow& row : table.rows) {
    text += fmt::format("  {:<8} {:>11}  ", row.wire, row.bytes);
    text += row.refused.empty()
                ? fmt::format("{:>9.3g}  {:>10}  {:>9.3g}{}\n", row.nmse,
                              fmt::format("{} of {}", row.same_token, table.positions),
                              row.divergence, row.exact ? "  bit by bit" : "")
                : fmt::format("refused: {}\n", row.refused);
  }
  if (!table.Passed()) text += "NOT EXACT: f32 must not change a bit; no row says anything\n";
  return text;
}

}  // namespace skippy::stage
