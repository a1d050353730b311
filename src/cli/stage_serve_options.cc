#include "cli/stage_serve_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/flag_parser.h"
#include "cli/flag_values.h"

namespace skippy::cli {
namespace {

struct Raw {
  ModelFlags model;
  std::vector<std::string> packages, peers;
  std::int64_t cache_ram = -1;
  std::string secret_file;
};

void AddFlags(CLI::App& app, StageServeOptions& options, Raw& raw) {
  app.add_option("--package", raw.packages,
                 "folder(s) of the stages to serve; comma-separated or repeated")
      ->group("Model");
  raw.model.AddRuntimeTo(app, options.setup);
  app.add_option(
         "--cache-ram", raw.cache_ram,
         "hard cap in MiB of the state that is kept of all these stages (0: none); default: "
         "a quarter of the memory, at most 4096")
      ->check(CLI::Range(0L, 1073741824L))
      ->group("Cache");
  app.add_option("--peers", raw.peers,
                 "addresses of other stage servers of this model, asked for state that is not "
                 "here: those that had these layers before the model was cut another way; with "
                 "this server's secret")
      ->group("Cache");
  app.add_option("--peers-ca", options.peers_ca,
                 "PEM certificates that the peers' must be signed by; without it nothing is "
                 "encrypted")
      ->group("Cache");
  const char* group = "Server";
  app.add_option("--listen", options.listen,
                 "host:port to listen on; port 0: a free one, printed at start")
      ->group(group);
  app.add_option("--secret-file", raw.secret_file,
                 "file with a secret that coordinators must send; needed to listen on more than "
                 "this machine")
      ->group(group);
  app.add_option("--tls-cert", options.certificate, "PEM certificate chain: connections are TLS")
      ->group(group);
  app.add_option("--tls-key", options.key, "PEM key of the certificate")->group(group);
  app.add_flag("--verbose", options.verbose, "llama.cpp's own log on standard error")->group(group);
}

Status Resolve(const Raw& raw, StageServeOptions& options) {
  for (const std::string& given : raw.packages)
    for (std::string& folder : SplitOn(given, ',')) options.packages.push_back(std::move(folder));
  if (options.packages.empty())
    return Err(ErrorCode::kInvalidArgument,
               "--package is required: a stage's folder, as `skippy stage split` wrote it");
  for (const std::string& given : raw.peers)
    for (std::string& address : SplitOn(given, ',')) options.peers.push_back(std::move(address));
  if (options.peers.empty() && !options.peers_ca.empty())
    return Err(ErrorCode::kInvalidArgument, "--peers-ca: there are no --peers");
  if (options.certificate.empty() != options.key.empty())
    return Err(ErrorCode::kInvalidArgument, "--tls-cert and --tls-key go together");
  options.cache_ram_mib =
      raw.cache_ram < 0 ? DefaultCacheMib() : static_cast<std::uint64_t>(raw.cache_ram);
  if (!raw.secret_file.empty()) {
    SKIPPY_TRY(options.secret, ReadSecret("--secret-file", raw.secret_file));
  }
  return raw.model.ResolveRuntime(options.setup);
}

}  // namespace

Result<ParsedStageServe> ParseStageServe(std::vector<std::string> arguments) {
  ParsedStageServe parsed;
  Raw raw;
  CLI::App app(
      "Serves layers of a model that `skippy stage split` cut to a coordinator, `skippy serve\n"
      "--stages`. All stages of a model need the same settings; the short spellings of `skippy\n"
      "serve` (-c -np -ub -t -tb -fa -ctk -ctv -ngl) work too.",
      "skippy stage serve");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  AddFlags(app, parsed.options, raw);
  app.get_option("--peers")->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.get_option("--package")->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  SKIPPY_TRY(parsed.help, ParseFlags(app, std::move(arguments), {ModelSpellings(), {}}));
  if (parsed.help) return parsed;
  SKIPPY_RETURN_IF_ERROR(Resolve(raw, parsed.options));
  return parsed;
}

}  // namespace skippy::cli
