// skippy stage split: a model in, packages of layers out; then the stages are held against the
// whole model, where that fits in memory.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "cli/flag_parser.h"
#include "cli/progress_line.h"
#include "cli/stage_command.h"
#include "llama/context_params.h"
#include "stage/self_check.h"
#include "stage/split.h"

namespace skippy::cli {
namespace {

using stage::Package;

struct Options {
  stage::SplitOptions split;
  bool check = true;
  bool json = false;
};

int Failed(const Error& error) {
  std::fprintf(stderr, "skippy stage split: %s\n", error.message.c_str());
  return error.code == ErrorCode::kInternal ? 1 : 2;
}

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

void Print(const std::vector<Package>& packages) {
  for (const Package& package : packages) {
    const stage::Manifest& manifest = package.manifest;
    std::printf(
        "%-24s %8.1f MiB  %s%s\n", std::filesystem::path(package.folder).filename().c_str(),
        static_cast<double>(manifest.bytes) / (1U << 20U),
        manifest.kind == "vocabulary"
            ? "tokenizer and embedding rows"
            : fmt::format("{} -> {}", manifest.input.node.empty() ? "rows" : manifest.input.node,
                          manifest.output.node.empty() ? "logits" : manifest.output.node)
                  .c_str(),
        package.was_there ? ", was there" : "");
    for (const std::string& added : manifest.added) std::printf("%24s %s\n", "", added.c_str());
  }
}

// Whether the stages are the whole model, so that there is something to hold them against.
bool IsWhole(const std::vector<Package>& packages) {
  return packages.size() > 1 && packages[1].manifest.first && packages.back().manifest.last;
}

int Check(const Options& options, const std::vector<Package>& packages) {
  if (!IsWhole(packages)) {
    std::printf("not checked: these stages are not the whole model\n");
    return 0;
  }
  const std::uint64_t needed = 2 * packages.front().manifest.model.bytes;
  const std::uint64_t available = llama::HostAvailableBytes();
  if (available > 0 && needed > available) {
    std::printf("not checked: the model and its stages need %llu MiB of memory, %llu are free\n",
                static_cast<unsigned long long>(needed >> 20U),
                static_cast<unsigned long long>(available >> 20U));
    return 0;
  }
  std::vector<std::string> stages;
  for (std::size_t i = 1; i < packages.size(); ++i) stages.push_back(packages[i].folder);
  const auto result = stage::CheckStages(options.split.model, packages.front().folder, stages, {});
  if (!result) return Failed(result.error());
  if (result->Passed()) {
    std::printf("checked: %u rows of logits are the whole model's, bit by bit\n", result->compared);
    return 0;
  }
  std::printf(
      "NOT EQUAL: %u of %u rows of logits are the whole model's; the first other one is "
      "at position %u, the largest difference %g. Do not use these stages.\n",
      result->equal, result->compared, result->first_difference, result->largest_difference);
  return 1;
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
}

}  // namespace

int StageSplit(std::vector<std::string> arguments) {
  Options options;
  CLI::App app(
      "Cuts a model into packages of layers. Nothing is loaded; an interrupted run is continued "
      "by\n"
      "the same command. Each folder can be moved to another machine alone.",
      "skippy stage split");
  AddFlags(app, options);
  const auto help = ParseFlags(app, std::move(arguments), {});
  if (!help) return Failed(help.error());
  if (*help) {
    std::printf("%s", (*help)->c_str());
    return 0;
  }
  const auto packages = RunSplit(options);
  if (!packages) return Failed(packages.error());
  Print(*packages);
  return options.check ? Check(options, *packages) : 0;
}

}  // namespace skippy::cli
