// skippy families [--model M.gguf]: the catalogue of model families, or what one model file is,
// what its memory should be and what the runtime really holds.
#include "cli/families_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/request_fields.h"
#include "cli/commands.h"
#include "cli/flag_parser.h"
#include "cli/model_flags.h"
#include "families/identify.h"
#include "llama/llama_runtime.h"
#include "llama/model.h"
#include "llama/model_facts.h"

namespace skippy::cli {
namespace {

using api::Json;
using families::Family;

constexpr int kJsonVersion = 1;

struct Options {
  std::string model;
  std::string type_k = "f16";
  std::string type_v = "f16";
  bool json = false;
  bool measure = true;
};

// What the runtime holds, or why nobody knows.
struct Measured {
  std::optional<MemoryShape> shape;
  PayloadPolicy policy = PayloadPolicy::kOff;
  std::string reason;
};

struct Findings {
  families::ModelFacts facts;
  families::Match match;
  std::optional<families::Expected> expected;
  std::string no_expectation;  // why `expected` is missing although there is a family
  Measured measured;
  std::vector<families::Difference> differences;
};

std::string BasisWords(const Family& family) {
  const families::Certificate& certificate = family.certificate;
  std::string words = certificate.model;
  const auto add = [&](const std::string& word) { words += (words.empty() ? "" : ", ") + word; };
  for (const std::string& fixture : certificate.fixtures) add("synthetic " + fixture);
  if (words.empty()) words = "nothing yet";
  return certificate.note.empty() ? words : words + ": " + certificate.note;
}

Json FamilyJson(const Family& family) {
  Json conditions = Json::array();
  for (const families::Condition& condition : family.when)
    conditions.push_back(Json{{"formula", condition.formula}, {"because", condition.because}});
  Json bytes = Json::object();
  const auto add = [&](const char* name, const std::string& formula) {
    if (!formula.empty()) bytes[name] = formula;
  };
  add("token", family.bytes.token);
  add("window_token", family.bytes.window_token);
  add("window", family.bytes.window);
  add("snapshot", family.bytes.snapshot);
  add("latent", family.bytes.latent);
  add("expanded", family.bytes.expanded);
  return Json{{"name", family.name},
              {"title", family.title},
              {"architectures", family.architectures},
              {"when", std::move(conditions)},
              {"memory", family.memory},
              {"granularity", family.granularity},
              {"policy", PayloadPolicyName(family.policy)},
              {"reason", family.reason},
              {"bytes", std::move(bytes)},
              {"certificate",
               {{"basis", families::BasisName(family.certificate.basis)},
                {"model", family.certificate.model},
                {"fixtures", family.certificate.fixtures},
                {"note", family.certificate.note}}}};
}

Json ShapeJson(const MemoryShape& shape, PayloadPolicy policy, const std::string& reason) {
  return Json{
      {"policy", PayloadPolicyName(policy)},   {"reason", reason},
      {"bytes_per_token", shape.kv_row_bytes}, {"window_bytes_per_token", shape.window_row_bytes},
      {"window_tokens", shape.window_tokens},  {"bytes_per_snapshot", shape.snapshot_bytes}};
}

void PrintJson(const Json& json) { std::printf("%s\n", json.dump(2).c_str()); }

void PrintCatalogue(const std::vector<Family>& catalogue) {
  std::printf("%-15s %-13s %-37s %s\n", "family", "policy", "reuse at", "certificate based on");
  for (const Family& family : catalogue)
    std::printf("%-15s %-13s %-37s %s\n", family.name.c_str(),
                std::string(PayloadPolicyName(family.policy)).c_str(), family.granularity.c_str(),
                BasisWords(family).c_str());
}

Result<Measured> Measure(const Options& options) {
  SKIPPY_TRY(const auto model, llama::Model::Load({.path = options.model,
                                                   .gpu_layers = 0,
                                                   .use_mmap = true,
                                                   .adapters = {},
                                                   .need_tokenizer = false}));
  SKIPPY_TRY(const auto runtime, llama::MakeRuntime(*model, {.context = 256,
                                                             .lanes = 1,
                                                             .chunk = 64,
                                                             .threads = 1,
                                                             .threads_batch = 1,
                                                             .type_k = options.type_k,
                                                             .type_v = options.type_v}));
  const runtime::RuntimeInfo& info = runtime->info();
  return Measured{info.shape, info.policy, info.policy_reason};
}

Result<Findings> Look(const std::vector<Family>& catalogue, const Options& options) {
  Findings findings;
  families::KvTypes types;
  SKIPPY_TRY(types.key, families::ElementBytes(options.type_k));
  SKIPPY_TRY(types.value, families::ElementBytes(options.type_v));
  SKIPPY_TRY(findings.facts, llama::ReadModelFacts(options.model));
  findings.match = families::Identify(catalogue, findings.facts);
  if (findings.match.family != nullptr) {
    auto expected = families::Expect(*findings.match.family, findings.facts, types);
    if (expected) {
      findings.expected = std::move(*expected);
    } else {
      findings.no_expectation = expected.error().message;
    }
  }
  if (!options.measure) {
    findings.measured.reason = "not asked for";
    return findings;
  }
  // A file that this machine or this llama.cpp cannot load still has a family.
  auto measured = Measure(options);
  if (!measured) {
    findings.measured.reason = measured.error().message;
    return findings;
  }
  findings.measured = std::move(*measured);
  if (findings.expected)
    findings.differences =
        families::Compare(*findings.expected, *findings.measured.shape, findings.measured.policy);
  return findings;
}

// How the runtime holds the state of latent attention; none: no such attention, or not measured.
std::optional<std::string_view> HeldState(const Findings& findings) {
  if (!findings.expected || !findings.expected->latent || !findings.measured.shape)
    return std::nullopt;
  return families::LatentHeldName(
      families::HeldBy(*findings.expected->latent, *findings.measured.shape));
}

Json FindingsJson(const Options& options, const Findings& findings) {
  Json json{{"schema", "skippy-family"}, {"version", kJsonVersion},
            {"model", options.model},    {"architecture", findings.facts.architecture},
            {"type_k", options.type_k},  {"type_v", options.type_v},
            {"why", findings.match.why}};
  json["family"] = findings.match.family == nullptr ? Json() : FamilyJson(*findings.match.family);
  json["expected"] = Json();
  json["mla"] = Json();
  json["notes"] = Json::array();
  if (findings.expected) {
    const families::Expected& expected = *findings.expected;
    json["expected"] = ShapeJson(expected.shape, expected.policy, expected.reason);
    json["notes"] = expected.notes;
    if (expected.latent) {
      json["mla"] = Json{{"state", expected.latent->latent ? "latent" : "expanded"},
                         {"latent_bytes_per_token", expected.latent->latent_bytes},
                         {"expanded_bytes_per_token", expected.latent->expanded_bytes},
                         {"evidence", expected.latent->evidence}};
    }
  }
  if (!findings.no_expectation.empty()) json["notes"].push_back(findings.no_expectation);
  const Measured& measured = findings.measured;
  if (const auto held = HeldState(findings)) json["mla"]["held"] = *held;
  json["measured"] =
      measured.shape ? ShapeJson(*measured.shape, measured.policy, measured.reason) : Json();
  json["not_measured"] = measured.shape ? Json() : Json(measured.reason);
  json["differences"] = Json::array();
  for (const families::Difference& difference : findings.differences)
    json["differences"].push_back(Json{{"what", difference.what},
                                       {"expected", difference.expected},
                                       {"measured", difference.measured}});
  json["confirmed"] =
      findings.expected.has_value() && measured.shape.has_value() && findings.differences.empty();
  return json;
}

void Line(const char* title, const std::string& text) {
  std::printf("  %-22s%s\n", title, text.c_str());
}

void PrintNumbers(const Findings& findings) {
  const auto cell = [](bool there, std::uint64_t value) {
    return there ? fmt::format("{}", value) : std::string("-");
  };
  const MemoryShape none;
  const MemoryShape& expected = findings.expected ? findings.expected->shape : none;
  const MemoryShape& measured = findings.measured.shape.value_or(none);
  const auto row = [&](const char* what, std::uint64_t a, std::uint64_t b) {
    std::printf("  %-22s%14s%14s\n", what, cell(findings.expected.has_value(), a).c_str(),
                cell(findings.measured.shape.has_value(), b).c_str());
  };
  std::printf("\n  %-22s%14s%14s\n", "", "expected", "measured");
  row("bytes a token", expected.kv_row_bytes, measured.kv_row_bytes);
  row("window bytes a token", expected.window_row_bytes, measured.window_row_bytes);
  row("window tokens", expected.window_tokens, measured.window_tokens);
  row("bytes a snapshot", expected.snapshot_bytes, measured.snapshot_bytes);
  std::printf("\n");
}

void PrintFindings(const Options& options, const Findings& findings) {
  const Measured& measured = findings.measured;
  std::printf("%s\n", options.model.c_str());
  if (const Family* family = findings.match.family; family != nullptr) {
    Line("family", fmt::format("{} ({})", family->title, family->name));
    Line("because", findings.match.why);
    Line("memory", family->memory);
    Line("certificate based on", BasisWords(*family));
  } else {
    Line("family", "unknown");
    Line("because", findings.match.why + ": classified by its memory");
    if (measured.shape) Line("memory", families::MemoryWords(*measured.shape));
  }
  if (findings.expected && findings.expected->latent) {
    const families::LatentState& latent = *findings.expected->latent;
    const auto held = HeldState(findings);
    Line("MLA state",
         fmt::format("{} ({}): {} bytes a token latent, {} expanded{}{}",
                     latent.latent ? "latent" : "expanded", latent.evidence, latent.latent_bytes,
                     latent.expanded_bytes, held ? "; the runtime holds " : "", held.value_or("")));
  }
  const bool known = measured.shape || findings.expected;
  if (known) {
    const PayloadPolicy policy = measured.shape ? measured.policy : findings.expected->policy;
    const std::string& reason = measured.shape ? measured.reason : findings.expected->reason;
    const MemoryShape& shape = measured.shape ? *measured.shape : findings.expected->shape;
    Line("policy", std::string(PayloadPolicyName(policy)) + (reason.empty() ? "" : ": " + reason));
    Line("reuse at", families::GranularityWords(shape, policy));
  }
  PrintNumbers(findings);
  if (findings.expected)
    for (const std::string& note : findings.expected->notes) Line("note", note);
  if (!findings.no_expectation.empty()) Line("no expectation", findings.no_expectation);
  if (!measured.shape) {
    Line("not measured", measured.reason);
  } else if (!findings.differences.empty()) {
    for (const families::Difference& difference : findings.differences)
      Line("DIFFERS", fmt::format("{}: expected {}, measured {} (which counts)", difference.what,
                                  difference.expected, difference.measured));
  } else if (findings.expected) {
    Line("confirmed", "the runtime holds what the family's file says");
  }
}

int Fail(const Error& error) {
  std::fprintf(stderr, "skippy families: %s\n", error.message.c_str());
  return error.code == ErrorCode::kInternal ? 1 : 2;
}

int Show(const Options& options) {
  const auto& catalogue = families::EmbeddedFamilies();
  if (!catalogue) return Fail(catalogue.error());
  if (options.model.empty()) {
    if (!options.json) {
      PrintCatalogue(*catalogue);
      return 0;
    }
    Json list = Json::array();
    for (const Family& family : *catalogue) list.push_back(FamilyJson(family));
    PrintJson(Json{
        {"schema", "skippy-families"}, {"version", kJsonVersion}, {"families", std::move(list)}});
    return 0;
  }
  const auto findings = Look(*catalogue, options);
  if (!findings) return Fail(findings.error());
  if (options.json) {
    PrintJson(FindingsJson(options, *findings));
  } else {
    PrintFindings(options, *findings);
  }
  return findings->differences.empty() ? 0 : 1;
}

}  // namespace

std::string FamilyLine(const std::string& model_path, const runtime::RuntimeInfo& info) {
  const auto& catalogue = families::EmbeddedFamilies();
  if (!catalogue) return "unknown: " + catalogue.error().message;
  const auto facts = llama::ReadModelFacts(model_path);
  if (!facts) return "unknown: " + facts.error().message;
  const auto key = families::ElementBytes(info.identity.kv_type_k);
  const auto value = families::ElementBytes(info.identity.kv_type_v);
  if (!key || !value) return "unknown: " + (key ? value : key).error().message;
  return families::OneLine(
      families::Confirm(*catalogue, *facts, {*key, *value}, info.shape, info.policy));
}

int FamiliesCommand(std::vector<std::string> arguments) {
  CLI::App app(
      "The model families that are known. With --model: which one a file is of and why, what its "
      "state should take and what it takes when loaded. Exit code 1: they differ.",
      "skippy families");
  Options options;
  app.add_option("--model", options.model, "a GGUF file (of a split model the first part)");
  app.add_option("--cache-type-k", options.type_k, "type of the key cache, default f16");
  app.add_option("--cache-type-v", options.type_v, "type of the value cache, default f16");
  app.add_flag("--json", options.json, "machine-readable");
  bool no_measure = false;
  app.add_flag("--no-measure", no_measure, "read the header only, do not load the model");
  const auto help = ParseFlags(app, std::move(arguments), {ModelSpellings(), {}});
  if (!help) return Fail(help.error());
  if (*help) {
    std::printf("%s", (*help)->c_str());
    return 0;
  }
  options.measure = !no_measure;
  int code = 2;
  const auto shown = api::Guarded([&]() -> api::ApiStatus {
    code = Show(options);
    return {};
  });
  if (!shown) std::fprintf(stderr, "skippy families: %s\n", shown.error().message.c_str());
  return code;
}

}  // namespace skippy::cli
