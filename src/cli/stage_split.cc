// skippy stage split: a model in, packages of layers out; then the stages are held against the
// whole model, where that fits in memory.
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
  bool json = false;
};

constexpr const char* kCommand = "skippy stage split";

int Failed(const Error& error) { return FailedWith(kCommand, error); }

std::atomic<bool> interrupted = false;

Result<std::vector<Package>> RunSplit(const Options& options) {
  for (const int number : {SIGINT, SIGTERM}) std::signal(number, [](int) { interrupted = true; });
  const ProgressLine line;
  return stage::Split(options.split,
                      [&](std::uint64_t done, std::uint64_t total, const std::string& what) {
                        line(done >> 20U, total >> 20U, "MiB of " + what);
                        return !interrupted;
                      });
}

// Where the stages are the whole model and both fit in memory.
Status Check(const Options& options, stage::SplitOutcome& outcome) {
  const std::vector<Package>& packages = outcome.packages;
  if (!packages[1].manifest.first() || !packages.back().manifest.last()) {
    outcome.not_checked = "these stages are not the whole model";
    return {};
  }
  const std::uint64_t needed = 2 * packages.front().manifest.model.bytes;
  const std::uint64_t available = llama::HostAvailableBytes();
  if (available > 0 && needed > available) {
    outcome.not_checked = fmt::format("the model and its stages need {} MiB of memory, {} are free",
                                      needed >> 20U, available >> 20U);
    return {};
  }
  std::vector<std::string> stages;
  for (std::size_t i = 1; i < packages.size(); ++i) stages.push_back(packages[i].folder);
  SKIPPY_TRY(outcome.check,
             stage::CheckStages(options.split.model, packages.front().folder, stages, {}));
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
      ->transform(CLI::AsSizeValue(false));
  cut->require_option(1);
  app.add_flag("!--no-check", options.check,
               "do not hold the stages against the whole model afterwards");
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
  stage::SplitOutcome outcome{std::move(*packages), std::nullopt, "not asked for"};
  if (options.check)
    if (const Status checked = Check(options, outcome); !checked) return Failed(checked.error());
  std::printf("%s", (options.json ? stage::ToJson(outcome) : stage::ToText(outcome)).c_str());
  return outcome.Passed() ? 0 : 1;
}

}  // namespace skippy::cli
