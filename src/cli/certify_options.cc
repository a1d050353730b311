#include <CLI/CLI.hpp>

#include "certify/certificate_store.h"
#include "cli/certify_command.h"
#include "cli/flag_parser.h"

namespace skippy::cli {
namespace {

void AddEvidenceFlags(CLI::App& app, CertifyOptions& options, std::string& exactness) {
  const char* group = "Evidence";
  app.add_option("--exactness", exactness, "bit, token or both")
      ->check(CLI::IsMember({"bit", "token", "both"}))
      ->group(group);
  app.add_flag("--quick", options.quick, "the self-test in seconds, at these settings only")
      ->group(group);
  app.add_flag("!--no-variations", options.variations,
               "not the other KV types, flash attention, chunk sizes and window sizes")
      ->group(group);
  app.add_option("--seed", options.seed, "of the texts")->group(group);
}

void AddReportFlags(CLI::App& app, CertifyOptions& options) {
  const char* group = "Report";
  app.add_flag("--rows", options.every_row, "tell every row, not only those that do not pass")
      ->group(group);
  app.add_option("--json", options.json, "write the certificate to this file; -: standard output")
      ->group(group);
  app.add_option("--markdown", options.markdown, "write a report to this file; -: standard output")
      ->group(group);
  app.add_option("--out", options.folder, "folder to keep the certificate in, where serve finds it")
      ->group(group);
}

}  // namespace

Result<ParsedCertify> ParseCertify(std::vector<std::string> arguments) {
  ParsedCertify parsed;
  CertifyOptions& options = parsed.options;
  std::string exactness = "both";
  CLI::App app(
      "Tries everything that could go wrong with kept state of a model, against cold runs, and\n"
      "writes a certificate for the settings given. Exit codes: 0 certified, 1 not, 2 bad usage or "
      "bad input.\n"
      "The flags of the model and the runtime are those of `skippy serve`, short spellings too.",
      "skippy certify");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  ModelFlags model;
  model.AddTo(app, options.model, "the GGUF file to certify");
  AddEvidenceFlags(app, options, exactness);
  AddReportFlags(app, options);
  SKIPPY_TRY(parsed.help, ParseFlags(app, std::move(arguments), {ModelSpellings(), {}}));
  if (parsed.help) return parsed;
  SKIPPY_RETURN_IF_ERROR(model.Resolve(options.model));
  if (options.json == "-" && options.markdown == "-")
    return Err(ErrorCode::kInvalidArgument, "--json - and --markdown - exclude each other");
  if (exactness == "bit") options.exactness = {Exactness::kBit};
  if (exactness == "token") options.exactness = {Exactness::kToken};
  if (options.folder.empty()) options.folder = certify::DefaultCertificateFolder();
  return parsed;
}

}  // namespace skippy::cli
