// skippy bench replay TRACE.jsonl: a trace under several policies and caps, beside an optimum that
// knows the future; on the fake runtime, or on a model with shorter texts.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "bench/replay_report.h"
#include "cli/bench_command.h"
#include "cli/flag_parser.h"
#include "cli/model_flags.h"
#include "cli/progress_line.h"
#include "llama/llama_runtime.h"
#include "llama/model.h"
#include "runtime/fake/fake_runtime.h"

namespace skippy::cli {
namespace {

using bench::ReplayReport;
using bench::Trace;
using runtime::fake::ShapeKind;

struct ReplayFlags {
  std::string trace;
  std::uint32_t block_tokens = 512;
  std::size_t limit = 0;
  std::uint32_t scale = 1;
  std::uint32_t page_tokens = 64;
  std::uint32_t chunk = 512;
  std::vector<std::uint64_t> caps;
  std::vector<std::uint32_t> cap_percents = {1, 3, 10, 30, 100};
  std::string policy = "both";
  std::string shape = "attention";
  std::uint32_t snapshot_rows = 0;
  std::uint32_t snapshot_spacing = 1;
  bool no_junctions = false;
  bool part_snapshots = false;
  std::string json;
  bool hot_lanes = false;
  std::string model;
  std::uint32_t threads = 0;
};

// Of the fake runtime: more would make its logits inexact floats.
constexpr std::uint32_t kVocabulary = 1024;

const std::vector<std::pair<std::string, EvictionPolicyKind>>& Policies() {
  static const std::vector<std::pair<std::string, EvictionPolicyKind>> policies{
      {"lru", EvictionPolicyKind::kLru}, {"benefit", EvictionPolicyKind::kBenefitPerByte}};
  return policies;
}

std::optional<ShapeKind> ShapeNamed(const std::string& name) {
  for (int i = 0; i < runtime::fake::kShapeKindCount; ++i) {
    const auto kind = static_cast<ShapeKind>(i);
    if (name == runtime::fake::ShapeKindName(kind)) return kind;
  }
  return std::nullopt;
}

std::vector<std::string> ShapeNames() {
  std::vector<std::string> names;
  for (int i = 0; i < runtime::fake::kShapeKindCount; ++i)
    names.emplace_back(runtime::fake::ShapeKindName(static_cast<ShapeKind>(i)));
  return names;
}

// Of a snapshot of the fake runtime that weighs `rows` rows; 0: as small as it is by itself.
Result<std::uint32_t> SnapshotBytes(const runtime::fake::FakeOptions& options, std::uint32_t rows) {
  const MemoryShape shape = runtime::fake::FakeRuntime(options).info().shape;
  if (rows > 0 && !(shape.HasSnapshot() && shape.HasKv()))
    return Err(ErrorCode::kInvalidArgument,
               "--snapshot-rows is for memory of rows and snapshots: --shape hybrid");
  return static_cast<std::uint32_t>(rows * shape.kv_row_bytes);
}

// What a trace is replayed on; the model outlives the runtime.
struct Stand {
  std::unique_ptr<llama::Model> model;
  std::unique_ptr<runtime::Runtime> runtime;
  std::string words;
};

Result<Stand> MakeStand(const ReplayFlags& flags, const Trace& trace) {
  const std::uint32_t context = trace.longest() + 1;
  Stand stand;
  if (flags.model.empty()) {
    runtime::fake::FakeOptions options;
    options.shape = ShapeNamed(flags.shape).value_or(ShapeKind::kAttention);
    options.lanes = 1;
    options.context = context;
    options.chunk = flags.chunk;
    options.vocab = kVocabulary;
    SKIPPY_TRY(options.snapshot_bytes, SnapshotBytes(options, flags.snapshot_rows));
    stand.runtime = std::make_unique<runtime::fake::FakeRuntime>(options);
    stand.words = fmt::format("the fake runtime, shape {}", flags.shape);
    return stand;
  }
  SKIPPY_TRY(stand.model, llama::Model::Load({.path = flags.model, .adapters = {}}));
  SKIPPY_TRY(stand.runtime, llama::MakeRuntime(*stand.model, {.context = context,
                                                              .chunk = flags.chunk,
                                                              .threads = flags.threads}));
  stand.words = flags.model;
  return stand;
}

std::string PlacesOf(const ReplayFlags& flags, const MemoryShape& shape) {
  if (!shape.HasSnapshot()) return "";
  std::string words = "at prompt ends";
  if (flags.snapshot_spacing > 0)
    words += fmt::format(", every {} tokens",
                         (flags.snapshot_spacing + flags.chunk - 1) / flags.chunk * flags.chunk);
  if (!flags.no_junctions) words += ", at junctions";
  if (flags.part_snapshots) words += ", at parts";
  return words;
}

// Shares of all distinct tokens, where nothing else is asked for.
std::vector<std::uint64_t> CapsOf(const ReplayFlags& flags, std::uint64_t distinct) {
  if (!flags.caps.empty()) return flags.caps;
  std::vector<std::uint64_t> caps;
  for (const std::uint64_t percent : flags.cap_percents)
    caps.push_back(std::max<std::uint64_t>(1, distinct * percent / 100));
  return caps;
}

Result<ReplayReport> Run(const ReplayFlags& flags) {
  SKIPPY_TRY(const Trace whole, bench::ReadTrace(flags.trace, flags.block_tokens, flags.limit));
  SKIPPY_TRY(const Trace trace, bench::Scaled(whole, flags.scale));
  SKIPPY_TRY(const Stand stand, MakeStand(flags, trace));
  ReplayReport report;
  report.trace = flags.trace;
  report.runtime = stand.words;
  report.block_tokens = trace.block_tokens;
  report.chunk = stand.runtime->info().chunk;
  report.page_tokens = flags.page_tokens;
  report.snapshot_bytes = stand.runtime->info().shape.snapshot_bytes;
  report.snapshots_at = PlacesOf(flags, stand.runtime->info().shape);
  report.requests = trace.requests.size();
  report.prompt_tokens = trace.input_tokens();
  report.perfect = bench::PerfectTree(trace);
  const ProgressLine line;
  for (const auto& [name, eviction] : Policies()) {
    if (flags.policy != "both" && flags.policy != name) continue;
    for (const std::uint64_t cap : CapsOf(flags, report.perfect.evaluated_tokens)) {
      bench::ReplayRow row;
      row.policy = name;
      row.cap_tokens = cap;
      row.cap_bytes = bench::BytesOfTokens(stand.runtime->info(), cap);
      row.optimum = bench::KnowingTheFuture(trace, cap);
      const std::string what = fmt::format("{}, {} tokens", name, cap);
      SKIPPY_TRY(row.result, bench::Replay(*stand.runtime, trace,
                                           {.eviction = eviction,
                                            .page_tokens = flags.page_tokens,
                                            .cap_bytes = row.cap_bytes,
                                            .hot_lanes = flags.hot_lanes,
                                            .snapshot_spacing = flags.snapshot_spacing,
                                            .snapshot_junctions = !flags.no_junctions,
                                            .snapshot_parts = flags.part_snapshots},
                                           [&](std::size_t done, std::size_t total) {
                                             line(done, total, what);
                                           }));
      report.rows.push_back(std::move(row));
    }
  }
  return report;
}

}  // namespace

int BenchReplay(std::vector<std::string> arguments) {
  ReplayFlags flags;
  CLI::App app(
      "Replays a trace (Mooncake's format: JSON Lines of timestamp, input_length, output_length,\n"
      "hash_ids) under eviction policies and caps, beside an optimum that knows the future.",
      "skippy bench replay");
  app.add_option("trace", flags.trace, "the trace file")->required();
  app.add_option("--block-tokens", flags.block_tokens, "tokens that a hash id stands for")
      ->check(CLI::Range(1U, 1U << 20U));
  app.add_option("--requests", flags.limit, "the first so many requests only; 0: all");
  app.add_option("--scale", flags.scale, "texts shorter by this divisor, for a real model")
      ->check(CLI::Range(1U, 1U << 20U));
  app.add_option("--caps", flags.caps,
                 "tokens of room in the host tier; comma-separated. Default: --cap-percents")
      ->delimiter(',');
  app.add_option("--cap-percents", flags.cap_percents,
                 "the same as shares of the trace's distinct tokens; comma-separated")
      ->delimiter(',')
      ->check(CLI::Range(1U, 1000U))
      ->capture_default_str();
  app.add_option("--policy", flags.policy, "lru, benefit or both")
      ->check(CLI::IsMember({"lru", "benefit", "both"}));
  app.add_option("--page-tokens", flags.page_tokens, "tokens of a page")
      ->check(CLI::Range(1U, 1U << 16U));
  app.add_option("--chunk", flags.chunk, "tokens of a prefill call (--ubatch-size of serve)")
      ->check(CLI::Range(1U, 1U << 16U));
  app.add_flag("--hot-lanes", flags.hot_lanes, "go on in a lane that still holds the text");
  app.add_option("--shape", flags.shape, "memory of the fake runtime")
      ->check(CLI::IsMember(ShapeNames()));
  CLI::Option* model = app.add_option("--model", flags.model,
                                      "a GGUF file to replay on instead of the fake runtime");
  app.add_option("--snapshot-rows", flags.snapshot_rows,
                 "rows that a snapshot of the fake runtime weighs; 0: about as much as three")
      ->check(CLI::Range(0U, 1U << 20U))
      ->excludes(model);
  app.add_option("--snapshot-spacing", flags.snapshot_spacing,
                 "tokens between snapshots, rounded up to the chunk; 0: none for its own sake")
      ->capture_default_str();
  app.add_flag("--no-junctions", flags.no_junctions,
               "no snapshot where a prompt parts from what is stored");
  app.add_flag("--part-snapshots", flags.part_snapshots,
               "snapshots at the starts of a prompt's blocks, as of messages");
  app.add_option("--threads", flags.threads, "compute threads of the model; 0: number of cores")
      ->check(CLI::Range(0U, 1024U));
  app.add_option("--json", flags.json, "write the result to this file too");
  const auto help = ParseFlags(app, std::move(arguments), {ModelSpellings(), {}});
  if (!help) return BenchFailed(help.error());
  if (*help) {
    std::printf("%s", (*help)->c_str());
    return 0;
  }
  const Result<ReplayReport> report = Run(flags);
  if (!report) return BenchFailed(report.error());
  std::printf("%s", bench::ReplayTable(*report).c_str());
  return WriteJson(flags.json, bench::ReplayJson(*report));
}

}  // namespace skippy::cli
