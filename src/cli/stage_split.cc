// skippy stage split: a model in, packages of layers out; then the stages are held against the
// whole model or, where that does not fit in memory, each against a hollow one.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <utility>

#include "cli/flag_parser.h"
#include "cli/outcome.h"
#include "cli/progress_line.h"
#include "cli/stage_command.h"
#include "llama/context_params.h"
#include "stage/split_report.h"

namespace skippy::cli {
namespace {

using stage::Package;

struct Options {
  stage::SplitOptions split;
  bool check = true;
  bool alone = false;  // even where the whole model fits
  bool json = false;
};

constexpr const char* kCommand = "skippy stage split";
constexpr std::size_t kMostDigits = 18;

int Failed(const Error& error) { return FailedWith(kCommand, error); }

std::atomic<bool> interrupted = false;

Result<std::vector<Package>> RunSplit(const Options& options) {
  for (const int number : {SIGINT, SIGTERM}) std::signal(number, [](int) { interrupted = true; });
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on files is an error like a full disk
  const ProgressLine line;
  return stage::Split(options.split,
                      [&](std::uint64_t done, std::uint64_t total, const std::string& what) {
                        line(done >> 20U, total >> 20U, "MiB of " + what);
                        return !interrupted;
                      });
}

bool Fits(std::uint64_t bytes) {
  const std::uint64_t available = llama::HostAvailableBytes();
  return available == 0 || bytes <= available;
}

// Whose tokenizer and rows the stages are checked with: a real first stage's own, where there is
// one.
const std::string& VocabularyOf(const std::vector<Package>& packages) {
  return packages[1].manifest.takes_tokens ? packages[1].folder : packages.front().folder;
}

Status CheckAlone(const Options& options, stage::SplitOutcome& outcome) {
  const std::vector<Package>& packages = outcome.packages;
  SKIPPY_TRY(const auto source, stage::Source::Open(options.split.model));
  const stage::CheckOptions check = stage::CheckOptionsFor(*source);
  const ProgressLine line;
  for (std::size_t i = 1; i < packages.size(); ++i) {
    const stage::Manifest& manifest = packages[i].manifest;
    const std::string name = "stage " + stage::ToString(manifest.layers);
    if (!Fits(manifest.bytes + packages.front().manifest.bytes)) {
      outcome.not_checked = name + " itself does not fit in memory";
      return {};
    }
    const auto result = stage::CheckAlone(*source, VocabularyOf(packages), packages[i].folder,
                                          packages[i].folder + "/" + stage::kCheckFolder, check,
                                          [&](std::uint64_t done, std::uint64_t total) {
                                            line(done >> 20U, total >> 20U, "MiB to check " + name);
                                            return !interrupted;
                                          });
    if (!result && result.error().code == ErrorCode::kUnavailable) {  // no room on disk
      outcome.not_checked = fmt::format(
          "{}: {} (it needs about {} MiB of disk; --no-check leaves it "
          "out)",
          name, result.error().message, (manifest.bytes + packages.front().manifest.bytes) >> 20U);
      return {};
    }
    if (!result) return tl::unexpected<Error>(result.error());
    outcome.checks.push_back({manifest.layers, *result});
  }
  return {};
}

Status Check(const Options& options, stage::SplitOutcome& outcome) {
  const std::vector<Package>& packages = outcome.packages;
  outcome.alone = options.alone || !packages[1].manifest.first() ||
                  !packages.back().manifest.last() ||
                  !Fits(2 * packages.front().manifest.model.bytes);
  if (outcome.alone) return CheckAlone(options, outcome);
  std::vector<std::string> stages;
  for (std::size_t i = 1; i < packages.size(); ++i) stages.push_back(packages[i].folder);
  SKIPPY_TRY(const auto source, stage::Source::Open(options.split.model));
  SKIPPY_TRY(const stage::CheckResult result,
             stage::CheckStages(options.split.model, VocabularyOf(packages), stages,
                                stage::CheckOptionsFor(*source), [] { return !interrupted; }));
  outcome.checks.push_back({{0, packages.back().manifest.layers.end}, result});
  return {};
}

void AddFlags(CLI::App& app, Options& options) {
  app.add_option("--model,-m", options.split.model, "the GGUF file, or the first of its parts")
      ->required();
  app.add_option("--out", options.split.out, "folder that gets one folder a stage")->required();
  auto* cut = app.add_option_group("Where to cut", "one of these");
  cut->add_option("--layers", options.split.layers,
                  "ranges of layers, 0..10,10..20; one range alone is cut out alone");
  cut->add_option("--auto", options.split.stages, "so many stages, of nearly equal size")
      ->check(CLI::Range(1U, 65536U));
  cut->add_option("--max-bytes", options.split.max_bytes,
                  "as few stages as possible, none larger (k, m, g: units of 1000; ki, mi, gi)")
      ->check([](const std::string& text) {
        // What does not fit would wrap around.
        const bool number = !text.empty() && text.front() >= '0' && text.front() <= '9';
        if (!number) return std::string("must be a number of bytes");
        const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
        return std::string(digits <= kMostDigits ? "" : "is more than there can be");
      })
      ->transform(CLI::AsSizeValue(true));
  cut->require_option(1);
  app.add_flag_callback(
      "--real-first-stage", [&options] { options.split.first = stage::FirstStage::kReal; },
      "the first stage gets the tokenizer and the embedding rows too: it takes tokens, and stands "
      "for the vocabulary package");
  auto* no_check = app.add_flag("!--no-check", options.check,
                                "do not hold the stages against the model afterwards");
  app.add_flag(
         "--check-alone", options.alone,
         "hold each stage alone against the model's other layers without their weights, as is "
         "done where the whole model does not fit in memory")
      ->excludes(no_check);
  app.add_flag("--json", options.json, "tell the result as JSON");
}

}  // namespace

int StageSplit(std::vector<std::string> arguments) {
  Options options;
  CLI::App app(
      "Cuts a model into packages of layers. Nothing is loaded; an interrupted run is continued "
      "by\n"
      "the same command. Each folder can be moved to another machine alone.",
      kCommand);
  AddFlags(app, options);
  const auto help = ParseFlags(app, std::move(arguments), {});
  if (!help) return Failed(help.error());
  if (*help) {
    std::printf("%s", (*help)->c_str());
    return 0;
  }
  auto packages = RunSplit(options);
  if (!packages) return Failed(packages.error());
  stage::SplitOutcome outcome;
  outcome.packages = std::move(*packages);
  if (!options.check) {
    outcome.not_checked = "not asked for";
  } else if (const Status checked = Check(options, outcome); !checked) {
    return Failed(checked.error());
  }
  std::printf("%s", (options.json ? stage::ToJson(outcome) : stage::ToText(outcome)).c_str());
  // Where it was asked for by name, a check that could not be made is no success.
  return outcome.Passed() && (!options.alone || outcome.not_checked.empty()) ? 0 : 1;
}

}  // namespace skippy::cli
