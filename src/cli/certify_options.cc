#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "certify/certificate_store.h"
#include "cli/certify_command.h"
#include "cli/flag_suggest.h"

namespace skippy::cli {
namespace {

// llama-server's short spellings, as `skippy serve` takes them.
const std::map<std::string, std::string>& ShortForms() {
  static const std::map<std::string, std::string> forms = {
      {"-m", "--model"},          {"-c", "--ctx-size"},         {"-np", "--lanes"},
      {"--parallel", "--lanes"},  {"-ngl", "--n-gpu-layers"},   {"-t", "--threads"},
      {"-ub", "--chunk"},         {"--ubatch-size", "--chunk"}, {"-fa", "--flash-attn"},
      {"-ctk", "--cache-type-k"}, {"-ctv", "--cache-type-v"},   {"-h", "--help"}};
  return forms;
}

struct Raw {
  std::string flash_attention = "on";
  std::string exactness = "both";
};

void AddFlags(CLI::App& app, CertifyOptions& options, Raw& raw) {
  constexpr std::uint32_t kMost = 1U << 30U;
  app.add_option("--model", options.model, "the GGUF file to certify (-m)");
  app.add_option("--n-gpu-layers", options.gpu_layers, "layers on the GPU; -1: all that fit (-ngl)")
      ->check(CLI::Range(-1, 999999));
  app.add_option("--ctx-size", options.runtime.context,
                 "positions a lane; 0: the model's training length, at most 8192 (-c)")
      ->check(CLI::Range(0U, kMost));
  app.add_option("--lanes", options.runtime.lanes,
                 "sequences; with one, what needs two is tried on a runtime of two (-np)")
      ->check(CLI::Range(1U, 64U));
  app.add_option("--chunk", options.runtime.chunk, "tokens of a prefill call; the grid (-ub)")
      ->check(CLI::Range(1U, kMost));
  app.add_option("--threads", options.runtime.threads, "0: the number of physical cores (-t)")
      ->check(CLI::Range(0U, 4096U));
  app.add_option("--cache-type-k", options.runtime.type_k, "type of cached keys (-ctk)");
  app.add_option("--cache-type-v", options.runtime.type_v, "type of cached values (-ctv)");
  app.add_option("--flash-attn", raw.flash_attention, "on or off (-fa)")
      ->check(CLI::IsMember({"on", "off", "1", "0", "auto"}));
  app.add_flag("--swa-full", options.runtime.swa_full, "sliding-window caches of full size");
  app.add_option("--exactness", raw.exactness, "bit, token or both")
      ->check(CLI::IsMember({"bit", "token", "both"}));
  app.add_flag("--quick", options.quick, "the self-test in seconds, at these settings only");
  app.add_flag("!--no-variations", options.variations,
               "not the other KV types, flash attention, chunk sizes and window sizes");
  app.add_option("--seed", options.seed, "of the texts");
  app.add_flag("--rows", options.every_row, "tell every row, not only those that do not pass");
  app.add_option("--json", options.json, "write the certificate to this file; -: standard output");
  app.add_option("--markdown", options.markdown, "write a report to this file; -: standard output");
  app.add_option("--out", options.folder,
                 "folder to keep the certificate in, where serve finds it");
}

Status CheckExtras(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) return {};
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  for (const auto& [flag, long_form] : ShortForms()) known.push_back(flag);
  const std::string name = extras.front().substr(0, extras.front().find('='));
  if (name.empty() || name.front() != '-')
    return Err(ErrorCode::kInvalidArgument,
               "'" + name + "' is not a flag; the model is given with --model FILE");
  const auto nearest = NearestFlag(name, known);
  return Err(ErrorCode::kInvalidArgument,
             "unknown flag " + name +
                 (nearest ? "; did you mean " + *nearest + "?" : "; see skippy certify --help"));
}

}  // namespace

Result<ParsedCertify> ParseCertify(std::vector<std::string> arguments) {
  for (std::string& argument : arguments) {
    if (const auto it = ShortForms().find(argument); it != ShortForms().end())
      argument = it->second;
  }
  ParsedCertify parsed;
  CertifyOptions& options = parsed.options;
  Raw raw;
  CLI::App app(
      "Tries everything that could go wrong with kept state of a model, against cold runs, and\n"
      "writes a certificate. Exit codes: 0 certified, 1 not, 2 bad usage or bad input.",
      "skippy certify");
  app.allow_extras();
  app.set_help_flag("--help", "this text");
  AddFlags(app, options, raw);
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    parsed.help = true;
    parsed.help_text = app.help();
    return parsed;
  } catch (const CLI::ParseError& error) {
    return Err(ErrorCode::kInvalidArgument, error.what());
  }
  SKIPPY_RETURN_IF_ERROR(CheckExtras(app));
  if (options.model.empty())
    return Err(ErrorCode::kInvalidArgument, "--model is required: the GGUF file to certify");
  if (options.json == "-" && options.markdown == "-")
    return Err(ErrorCode::kInvalidArgument, "--json - and --markdown - exclude each other");
  options.runtime.flash_attention = raw.flash_attention != "off" && raw.flash_attention != "0";
  if (raw.exactness == "bit") options.exactness = {Exactness::kBit};
  if (raw.exactness == "token") options.exactness = {Exactness::kToken};
  if (options.folder.empty()) options.folder = certify::DefaultCertificateFolder();
  return parsed;
}

}  // namespace skippy::cli
