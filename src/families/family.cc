#include "families/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <set>
#include <utility>

#include "families/embedded.h"
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace skippy::families {
namespace {

constexpr std::string_view kCommon = "common.toml";

Error Bad(const SourceFile& file, const std::string& what) {
  return {ErrorCode::kInvalidArgument, fmt::format("families/{}: {}", file.name, what)};
}

// A key that nobody reads is a typing mistake.
Status OnlyKeys(const SourceFile& file, const toml::table& table, std::string_view where,
                std::initializer_list<std::string_view> allowed) {
  for (const auto& [key, node] : table) {
    if (std::find(allowed.begin(), allowed.end(), key.str()) == allowed.end())
      return tl::unexpected<Error>(
          Bad(file, fmt::format("{}'{}' means nothing here", where, key.str())));
  }
  return {};
}

// Missing: empty. Anything but a string is an error.
Result<std::string> Text(const SourceFile& file, const toml::table& table, std::string_view key) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return std::string();
  const auto text = node->value_exact<std::string>();
  if (!text || text->empty())
    return tl::unexpected<Error>(Bad(file, fmt::format("'{}' must be a text", key)));
  return *text;
}

Result<std::string> NeededText(const SourceFile& file, const toml::table& table,
                               std::string_view key) {
  SKIPPY_TRY(std::string text, Text(file, table, key));
  if (text.empty()) return tl::unexpected<Error>(Bad(file, fmt::format("'{}' is missing", key)));
  return text;
}

Result<const toml::table*> Section(const SourceFile& file, const toml::table& table,
                                   std::string_view key) {
  static const toml::table kEmpty;
  const toml::node* node = table.get(key);
  if (node == nullptr) return &kEmpty;
  if (const toml::table* section = node->as_table()) return section;
  return tl::unexpected<Error>(Bad(file, fmt::format("'{}' must be a table", key)));
}

Result<Value> ReadSource(const SourceFile& file, const toml::table& table, std::string_view name) {
  struct Kind {
    std::string_view key;
    Source source;
  };
  constexpr std::array kKinds{Kind{"key", Source::kKey}, Kind{"scalar", Source::kScalar},
                              Kind{"array", Source::kArray}, Kind{"first", Source::kFirst}};
  SKIPPY_RETURN_IF_ERROR(OnlyKeys(file, table, fmt::format("value '{}': ", name),
                                  {"key", "scalar", "array", "first", "otherwise"}));
  Value value;
  for (const Kind& kind : kKinds) {
    SKIPPY_TRY(std::string key, Text(file, table, kind.key));
    if (key.empty()) continue;
    if (!value.key.empty())
      return tl::unexpected<Error>(Bad(file, fmt::format("value '{}' names two keys", name)));
    value.source = kind.source;
    value.key = std::move(key);
  }
  if (value.key.empty())
    return tl::unexpected<Error>(Bad(file, fmt::format("value '{}' names no key", name)));
  SKIPPY_TRY(value.formula, Text(file, table, "otherwise"));
  return value;
}

Status ReadValues(const SourceFile& file, const toml::table& table, Values& values) {
  SKIPPY_TRY(const toml::table* section, Section(file, table, "values"));
  for (const auto& [key, node] : *section) {
    const std::string name(key.str());
    if (const toml::table* source = node.as_table()) {
      SKIPPY_TRY(values[name], ReadSource(file, *source, name));
    } else if (const auto formula = node.value_exact<std::string>()) {
      values[name] = {.source = Source::kFormula, .key = {}, .formula = *formula};
    } else {
      return tl::unexpected<Error>(
          Bad(file, fmt::format("value '{}' must be a formula or name a key", name)));
    }
  }
  return {};
}

Result<PayloadPolicy> ReadPolicy(const SourceFile& file, const std::string& name) {
  for (const PayloadPolicy policy :
       {PayloadPolicy::kOff, PayloadPolicy::kResidentKv, PayloadPolicy::kKvRecurrent})
    if (PayloadPolicyName(policy) == name) return policy;
  return tl::unexpected<Error>(Bad(
      file, fmt::format("policy '{}' is not resident_kv, kv_recurrent or off{}", name,
                        name == PayloadPolicyName(PayloadPolicy::kFullState)
                            ? ": whole states are for certification, no family is served that way"
                            : "")));
}

// Missing: empty.
Result<std::vector<std::string>> TextList(const SourceFile& file, const toml::table& table,
                                          std::string_view key) {
  std::vector<std::string> texts;
  const toml::node* node = table.get(key);
  if (node == nullptr) return texts;
  const toml::array* list = node->as_array();
  if (list == nullptr)
    return tl::unexpected<Error>(Bad(file, fmt::format("'{}' must be a list of texts", key)));
  for (const toml::node& element : *list) {
    const auto text = element.value_exact<std::string>();
    if (!text || text->empty())
      return tl::unexpected<Error>(Bad(file, fmt::format("'{}' must be a list of texts", key)));
    texts.push_back(*text);
  }
  return texts;
}

Status ReadConditions(const SourceFile& file, const toml::table& table, Family& family) {
  const toml::node* node = table.get("when");
  if (node == nullptr) return {};
  const toml::array* conditions = node->as_array();
  if (conditions == nullptr) return tl::unexpected<Error>(Bad(file, "'when' must be a list"));
  for (const toml::node& element : *conditions) {
    const toml::table* condition = element.as_table();
    if (condition == nullptr)
      return tl::unexpected<Error>(Bad(file, "'when' must list tables with formula and because"));
    SKIPPY_RETURN_IF_ERROR(OnlyKeys(file, *condition, "when: ", {"formula", "because"}));
    Condition read;
    SKIPPY_TRY(read.formula, NeededText(file, *condition, "formula"));
    SKIPPY_TRY(read.because, NeededText(file, *condition, "because"));
    family.when.push_back(std::move(read));
  }
  return {};
}

Status ReadBytes(const SourceFile& file, const toml::table& table, Family& family) {
  SKIPPY_TRY(const toml::table* bytes, Section(file, table, "bytes"));
  SKIPPY_RETURN_IF_ERROR(
      OnlyKeys(file, *bytes, "bytes: ", {"token", "window_token", "window", "snapshot"}));
  SKIPPY_TRY(family.bytes.token, Text(file, *bytes, "token"));
  SKIPPY_TRY(family.bytes.window_token, Text(file, *bytes, "window_token"));
  SKIPPY_TRY(family.bytes.window, Text(file, *bytes, "window"));
  SKIPPY_TRY(family.bytes.snapshot, Text(file, *bytes, "snapshot"));
  SKIPPY_TRY(const toml::table* mla, Section(file, table, "mla"));
  SKIPPY_RETURN_IF_ERROR(OnlyKeys(file, *mla, "mla: ", {"latent", "expanded"}));
  SKIPPY_TRY(family.bytes.latent, Text(file, *mla, "latent"));
  SKIPPY_TRY(family.bytes.expanded, Text(file, *mla, "expanded"));
  if (family.bytes.latent.empty() != family.bytes.expanded.empty())
    return tl::unexpected<Error>(Bad(file, "mla: needs both latent and expanded"));
  if (family.bytes.window_token.empty() != family.bytes.window.empty())
    return tl::unexpected<Error>(Bad(file, "bytes: window_token and window go together"));
  const bool none = family.bytes.token.empty() && family.bytes.window_token.empty() &&
                    family.bytes.snapshot.empty();
  if (none != (family.policy == PayloadPolicy::kOff))
    return tl::unexpected<Error>(
        Bad(file, none ? "bytes: a family that is not off has at least one formula"
                       : "bytes: a family that is off has none"));
  return {};
}

Result<Windowless> ReadWindowless(const SourceFile& file, const std::string& name) {
  if (name.empty()) return Windowless::kAsIs;
  if (name == "drop") return Windowless::kDropped;
  if (name == "mask") return Windowless::kMasked;
  return tl::unexpected<Error>(
      Bad(file, fmt::format("stages: windowless '{}' is not drop or mask", name)));
}

Status ReadLayerKeys(const SourceFile& file, const toml::table& stages, StageRecipe& recipe) {
  SKIPPY_TRY(const toml::table* keys, Section(file, stages, "layer_keys"));
  for (const auto& [key, node] : *keys) {
    const auto formula = node.value_exact<std::string>();
    if (!formula)
      return tl::unexpected<Error>(
          Bad(file, fmt::format("stages: layer_keys: '{}' must be a formula", key.str())));
    recipe.layer_keys.emplace(key.str(), *formula);
  }
  return {};
}

Status ReadSpecialCounts(const SourceFile& file, const toml::table& stages, StageRecipe& recipe) {
  const toml::node* node = stages.get("special_counts");
  if (node == nullptr) return {};
  const auto bad = [&] {
    return tl::unexpected<Error>(Bad(file, "stages: special_counts must list numbers of layers"));
  };
  const toml::array* list = node->as_array();
  if (list == nullptr) return bad();
  for (const toml::node& element : *list) {
    const auto count = element.value_exact<std::int64_t>();
    if (!count || *count < 1 || *count > 65536) return bad();
    recipe.special_counts.push_back(static_cast<std::uint32_t>(*count));
  }
  return {};
}

Status ReadStages(const SourceFile& file, const toml::table& table, Family& family) {
  StageRecipe& recipe = family.stages;
  SKIPPY_TRY(const toml::table* stages, Section(file, table, "stages"));
  SKIPPY_RETURN_IF_ERROR(OnlyKeys(
      file, *stages, "stages: ",
      {"refused", "capture", "inject", "embedding_scale", "kinds", "begins", "begins_because",
       "layer_keys", "dropped", "windowless", "needs_output", "special_counts"}));
  SKIPPY_TRY(recipe.refused, Text(file, *stages, "refused"));
  SKIPPY_TRY(const std::string capture, Text(file, *stages, "capture"));
  if (!capture.empty()) recipe.capture = capture;
  SKIPPY_TRY(recipe.inject, Text(file, *stages, "inject"));
  SKIPPY_TRY(recipe.embedding_scale, Text(file, *stages, "embedding_scale"));
  SKIPPY_TRY(recipe.kinds, TextList(file, *stages, "kinds"));
  SKIPPY_TRY(recipe.begins, Text(file, *stages, "begins"));
  SKIPPY_TRY(recipe.begins_because, Text(file, *stages, "begins_because"));
  if (recipe.begins.empty() != recipe.begins_because.empty())
    return tl::unexpected<Error>(Bad(file, "stages: begins and begins_because go together"));
  SKIPPY_TRY(recipe.dropped, TextList(file, *stages, "dropped"));
  SKIPPY_TRY(const std::string windowless, Text(file, *stages, "windowless"));
  SKIPPY_TRY(recipe.windowless, ReadWindowless(file, windowless));
  if (const toml::node* node = stages->get("needs_output")) {
    const auto value = node->value_exact<bool>();
    if (!value)
      return tl::unexpected<Error>(Bad(file, "stages: needs_output must be true or false"));
    recipe.needs_output = *value;
  }
  SKIPPY_RETURN_IF_ERROR(ReadLayerKeys(file, *stages, recipe));
  return ReadSpecialCounts(file, *stages, recipe);
}

Status ReadCertificate(const SourceFile& file, const toml::table& table, Family& family) {
  Certificate& certificate = family.certificate;
  SKIPPY_TRY(const toml::table* section, Section(file, table, "certificate"));
  SKIPPY_RETURN_IF_ERROR(
      OnlyKeys(file, *section, "certificate: ", {"basis", "model", "fixtures", "note"}));
  SKIPPY_TRY(const std::string basis, NeededText(file, *section, "basis"));
  SKIPPY_TRY(certificate.model, Text(file, *section, "model"));
  SKIPPY_TRY(certificate.fixtures, TextList(file, *section, "fixtures"));
  SKIPPY_TRY(certificate.note, Text(file, *section, "note"));
  for (const Basis known : {Basis::kNone, Basis::kSynthetic, Basis::kReal}) {
    if (basis != BasisName(known)) continue;
    certificate.basis = known;
    const bool complete = known == Basis::kReal        ? !certificate.model.empty()
                          : known == Basis::kSynthetic ? !certificate.fixtures.empty()
                                                       : !certificate.note.empty();
    if (complete) return {};
    return tl::unexpected<Error>(Bad(
        file, "certificate: real names a model, synthetic its fixtures, none says why in a note"));
  }
  return tl::unexpected<Error>(
      Bad(file, fmt::format("certificate: basis '{}' is not real, synthetic or none", basis)));
}

Result<Family> ReadFamily(const SourceFile& file, const toml::table& table, const Values& common) {
  SKIPPY_RETURN_IF_ERROR(
      OnlyKeys(file, table, "",
               {"name", "title", "architectures", "when", "memory", "granularity", "policy",
                "reason", "values", "bytes", "mla", "stages", "certificate"}));
  Family family;
  family.values = common;
  SKIPPY_TRY(family.name, NeededText(file, table, "name"));
  if (family.name + ".toml" != file.name)
    return tl::unexpected<Error>(
        Bad(file, fmt::format("name '{}' is not the file's", family.name)));
  SKIPPY_TRY(family.title, NeededText(file, table, "title"));
  SKIPPY_TRY(family.memory, NeededText(file, table, "memory"));
  SKIPPY_TRY(family.granularity, NeededText(file, table, "granularity"));
  SKIPPY_TRY(const std::string policy, NeededText(file, table, "policy"));
  SKIPPY_TRY(family.policy, ReadPolicy(file, policy));
  SKIPPY_TRY(family.reason, Text(file, table, "reason"));
  if ((family.policy == PayloadPolicy::kOff) == family.reason.empty())
    return tl::unexpected<Error>(Bad(file, "a reason belongs to policy off, and only to it"));
  SKIPPY_TRY(family.architectures, TextList(file, table, "architectures"));
  if (family.architectures.empty())
    return tl::unexpected<Error>(Bad(file, "'architectures' must list at least one"));
  SKIPPY_RETURN_IF_ERROR(ReadConditions(file, table, family));
  SKIPPY_RETURN_IF_ERROR(ReadValues(file, table, family.values));
  SKIPPY_RETURN_IF_ERROR(ReadBytes(file, table, family));
  SKIPPY_RETURN_IF_ERROR(ReadStages(file, table, family));
  SKIPPY_RETURN_IF_ERROR(ReadCertificate(file, table, family));

  const ByteFormulas& bytes = family.bytes;
  std::vector<std::string> formulas{bytes.token,  bytes.window_token, bytes.window, bytes.snapshot,
                                    bytes.latent, bytes.expanded,     "all_layers"};
  for (const Condition& condition : family.when) formulas.push_back(condition.formula);
  const StageRecipe& stages = family.stages;
  for (const std::string* formula : {&stages.embedding_scale, &stages.begins})
    formulas.push_back(*formula);
  for (const auto& [key, formula] : stages.layer_keys) formulas.push_back(formula);
  formulas.insert(formulas.end(), stages.kinds.begin(), stages.kinds.end());
  if (stages.windowless != Windowless::kAsIs) formulas.emplace_back("windowed");
  if (const Status status = CheckFormulas(family.values, formulas); !status)
    return tl::unexpected<Error>(Bad(file, status.error().message));
  return family;
}

Result<toml::table> ReadToml(const SourceFile& file) {
  toml::parse_result parsed = toml::parse(file.text, file.name);
  if (!parsed)
    return tl::unexpected<Error>(
        Bad(file, fmt::format("line {}: {}", parsed.error().source().begin.line,
                              parsed.error().description())));
  return std::move(parsed).table();
}

}  // namespace

std::string_view BasisName(Basis basis) {
  switch (basis) {
    case Basis::kNone: return "none";
    case Basis::kSynthetic: return "synthetic";
    case Basis::kReal: return "real";
  }
  return "unknown";
}

Result<std::vector<Family>> ParseFamilies(std::span<const SourceFile> files) {
  Values common;
  for (const SourceFile& file : files) {
    if (file.name != kCommon) continue;
    SKIPPY_TRY(const toml::table table, ReadToml(file));
    SKIPPY_RETURN_IF_ERROR(OnlyKeys(file, table, "", {"values"}));
    SKIPPY_RETURN_IF_ERROR(ReadValues(file, table, common));
  }
  std::vector<Family> families;
  std::set<std::string, std::less<>> names;
  for (const SourceFile& file : files) {
    if (file.name == kCommon) continue;
    SKIPPY_TRY(const toml::table table, ReadToml(file));
    SKIPPY_TRY(Family family, ReadFamily(file, table, common));
    if (!names.insert(family.name).second)
      return tl::unexpected<Error>(Bad(file, fmt::format("there are two '{}'", family.name)));
    families.push_back(std::move(family));
  }
  std::sort(families.begin(), families.end(),
            [](const Family& a, const Family& b) { return a.name < b.name; });
  return families;
}

const Result<std::vector<Family>>& EmbeddedFamilies() {
  static const Result<std::vector<Family>> families = ParseFamilies(EmbeddedFiles());
  return families;
}

}  // namespace skippy::families
