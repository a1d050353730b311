// skippy bench micro: what moving state costs on a model's shapes, without evaluating anything.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "bench/micro_report.h"
#include "cli/bench_command.h"
#include "cli/flag_parser.h"
#include "cli/model_flags.h"
#include "llama/llama_runtime.h"
#include "llama/model.h"

namespace skippy::cli {
namespace {

constexpr std::uint32_t kContext = 16384;  // where no --ctx-size is given

Result<bench::MicroReport> Run(const ModelSetup& setup, const bench::MicroOptions& options) {
  llama::ModelOptions file;
  file.path = setup.file;
  file.gpu_layers = setup.gpu_layers;
  file.rpc_servers = setup.rpc_servers;
  file.use_mmap = setup.use_mmap;
  SKIPPY_TRY(const std::unique_ptr<llama::Model> model, llama::Model::Load(file));
  runtime::RuntimeOptions wanted = setup.runtime;
  if (wanted.context == 0) wanted.context = kContext;
  SKIPPY_TRY(const auto runtime, llama::MakeRuntime(*model, wanted));
  const runtime::RuntimeInfo& info = runtime->info();
  if (info.policy == PayloadPolicy::kOff)
    return Err(ErrorCode::kUnsupported, "this model is not cached: " + info.policy_reason);
  bench::MicroReport report;
  report.model = setup.file;
  report.runtime_build = info.identity.runtime_build;
  report.shape = info.shape;
  report.page_tokens = options.page_tokens;
  SKIPPY_TRY(report.points, bench::MeasureMicro(*runtime, options));
  return report;
}

}  // namespace

int BenchMicro(std::vector<std::string> arguments) {
  CLI::App app(
      "What copying, digesting, exporting, importing, recording and looking up cost on a model's\n"
      "shapes. Nothing is evaluated: rows are random bytes. Medians.",
      "skippy bench micro");
  ModelSetup setup;
  ModelFlags model;
  bench::MicroOptions options;
  std::string json;
  model.AddTo(app, setup, "the GGUF file whose shapes are measured");
  app.add_option("--lengths", options.lengths, "tokens of the prefixes; comma-separated")
      ->delimiter(',')
      ->check(CLI::Range(1U, 16777216U));
  app.add_option("--page-tokens", options.page_tokens, "tokens of a page")
      ->check(CLI::Range(1U, 65536U));
  app.add_option("--rounds", options.rounds, "measurements of each figure")
      ->check(CLI::Range(1U, 100000U));
  app.add_option("--json", json, "write the result to this file too");
  const auto help = ParseFlags(app, std::move(arguments), {ModelSpellings(), {}});
  if (!help) return BenchFailed(help.error());
  if (*help) {
    std::printf("%s", (*help)->c_str());
    return 0;
  }
  if (const Status resolved = model.Resolve(setup); !resolved) return BenchFailed(resolved.error());
  const auto report = Run(setup, options);
  if (!report) return BenchFailed(report.error());
  std::printf("%s", bench::MicroTable(*report).c_str());
  return WriteJson(json, bench::MicroJson(*report));
}

}  // namespace skippy::cli
