// skippy stage certify: evidence for one stage package, without the rest of the model.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli/flag_parser.h"
#include "cli/outcome.h"
#include "cli/stage_command.h"
#include "stage/certify_stage.h"

namespace skippy::cli {
namespace {

constexpr const char* kCommand = "skippy stage certify";

int Failed(const Error& error) { return FailedWith(kCommand, error); }

// From here on the process cannot have more than this in its address space: a model that is larger
// cannot be loaded whole, whoever tried.
Status LimitAddressSpace(std::uint64_t bytes) {
  if (bytes == 0) return {};
  const rlimit limit{bytes, bytes};
  if (setrlimit(RLIMIT_AS, &limit) == 0) return {};
  return Err(ErrorCode::kUnavailable,
             fmt::format("cannot limit the address space: {}", std::strerror(errno)));
}

std::uint64_t PeakResidentBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

void AddFlags(CLI::App& app, stage::StageCertifyOptions& options, std::uint64_t& limit,
              std::string& json) {
  app.add_option("--package", options.package, "the folder of the stage")->required();
  app.add_option("--vocabulary", options.vocabulary,
                 "the model's vocabulary package: tokens as input; without it normally "
                 "distributed rows");
  app.add_option("--upstream", options.upstream,
                 "packages of all stages before this one, which make its input of the tokens; "
                 "repeated or comma-separated")
      ->delimiter(',');
  app.add_option("--prefix", options.prefix, "tokens that are restored")
      ->check(CLI::Range(1U, 1U << 20U));
  app.add_option("--rounds", options.rounds, "measurements of the times")
      ->check(CLI::Range(1U, 1000U));
  app.add_flag("--q8-wire", options.q8_wire, "try the int8 wire too (q8_wire_validation)");
  app.add_option("--threads,-t", options.runtime.threads, "compute threads")
      ->check(CLI::Range(1U, 1024U));
  app.add_option("--limit-memory", limit,
                 "bytes of address space that this process may have: proof that less than the "
                 "whole model is enough (k, m, g: units of 1000; ki, mi, gi)")
      ->transform(CLI::AsSizeValue(true));
  app.add_option("--json", json, "write the certificate to this file; -: standard output");
}

}  // namespace

int StageCertify(std::vector<std::string> arguments) {
  stage::StageCertifyOptions options;
  std::uint64_t limit = 0;
  std::string json;
  CLI::App app(
      "Tries on one stage alone that what its cache brings back is what it would compute, bit by "
      "bit,\nand what a restore saves. Exit codes: 0 certified, 1 not, 2 bad usage or bad input.",
      kCommand);
  AddFlags(app, options, limit, json);
  const auto help = ParseFlags(app, std::move(arguments), {});
  if (!help) return Failed(help.error());
  if (*help) {
    std::printf("%s", (*help)->c_str());
    return 0;
  }
  options.runtime.context = options.prefix + options.suffix + options.steps;
  if (const Status limited = LimitAddressSpace(limit); !limited) return Failed(limited.error());
  const auto certificate = stage::CertifyStage(options);
  if (!certificate) return Failed(certificate.error());
  if (json == "-") {
    std::printf("%s", stage::ToJson(*certificate).c_str());
    return certificate->Passed() ? 0 : 1;
  }
  std::printf("%s", stage::ToText(*certificate).c_str());
  std::printf("  process: %.1f MiB at most%s, the whole model has %.1f MiB\n",
              static_cast<double>(PeakResidentBytes()) / (1U << 20U),
              limit > 0 ? fmt::format(", limited to {:.1f} MiB of address space",
                                      static_cast<double>(limit) / (1U << 20U))
                              .c_str()
                        : "",
              static_cast<double>(certificate->package.model.bytes) / (1U << 20U));
  if (const int code = WriteJsonFile(kCommand, json, stage::ToJson(*certificate)); code != 0)
    return code;
  return certificate->Passed() ? 0 : 1;
}

}  // namespace skippy::cli
