#include "stage/self_check.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include "llama/llama_runtime.h"
#include "runtime/compare_floats.h"
#include "stage/chain.h"
#include "stage/embedding.h"
#include "stage/load.h"
#include "stage/split.h"
#include "stage/stage_inputs.h"

namespace skippy::stage {
namespace {

constexpr SeqId kLane{0};
constexpr const char* kInterrupted = "interrupted while the stages were checked; they are there";

void Compare(std::span<const float> whole, std::span<const float> staged, Pos at,
             CheckResult& result) {
  ++result.compared;
  // What is not a number is the same whatever it was computed from.
  const bool numbers =
      std::none_of(whole.begin(), whole.end(), [](float value) { return std::isnan(value); });
  if (numbers && !whole.empty() && runtime::SameBits(whole, staged)) {
    ++result.equal;
    return;
  }
  if (result.equal + 1 == result.compared) result.first_difference = at;
  result.largest_difference =
      std::max(result.largest_difference, runtime::LargestDifference(whole, staged));
}

// So many tokens more than a window as the usual prompt has.
Pos BeyondOf(double window) {
  const double longest = kMostChecked - CheckOptions().prompt;
  return CheckOptions().prompt + static_cast<Pos>(std::min(window, longest));
}

// The prompt chunk by chunk, then single tokens.
std::vector<PosRange> StepsOf(const CheckOptions& options) {
  std::vector<PosRange> steps;
  for (Pos at = 0; at < options.prompt; at += options.runtime.chunk)
    steps.push_back({at, std::min(at + options.runtime.chunk, options.prompt)});
  for (Pos at = options.prompt; at < options.prompt + options.steps; ++at)
    steps.push_back({at, at + 1});
  return steps;
}

// Rows of one place, one step behind the other: of a node, or the logits of each step's last token.
struct Left {
  std::vector<float> values;
  std::vector<Pos> positions;

  void Add(const llama::StageRuntime& run, PosRange step) {
    const bool logits = run.stage->output_width() == 0;
    const auto rows = logits ? run.runtime->Logits(0) : run.stage->OutputRows(0);
    values.insert(values.end(), rows.begin(), rows.end());
    for (Pos at = logits ? step.end - 1 : step.begin; at < step.end; ++at) positions.push_back(at);
  }
  std::span<const float> Row(std::size_t i) const {
    const std::size_t width = values.size() / positions.size();
    return std::span(values).subspan(i * width, width);
  }
};

// Whether to go on, asked before every step.
using GoOn = std::function<Status()>;

Result<Left> RunTokens(const llama::Model& model, const Boundary& boundary, TokenSpan tokens,
                       const CheckOptions& options, const GoOn& go_on) {
  SKIPPY_TRY(
      const llama::StageRuntime run,
      llama::MakeStageRuntime(
          model, options.runtime,
          {.inject = {}, .capture = boundary.node, .width = boundary.width, .takes_tokens = true}));
  Left left;
  for (const PosRange step : StepsOf(options)) {
    SKIPPY_RETURN_IF_ERROR(go_on());
    const runtime::DecodeItem item{kLane, step.begin, tokens.subspan(step.begin, step.size()),
                                   true};
    SKIPPY_RETURN_IF_ERROR(run.runtime->Decode({&item, 1}));
    left.Add(run, step);
  }
  return left;
}

Result<Left> RunRows(const std::string& folder, std::span<const float> rows,
                     const CheckOptions& options, const GoOn& go_on) {
  SKIPPY_TRY(const LoadedStage stage, LoadStage(folder, {.runtime = options.runtime}));
  const std::size_t width = stage.manifest.input.width;
  Left left;
  for (const PosRange step : StepsOf(options)) {
    SKIPPY_RETURN_IF_ERROR(go_on());
    const runtime::RowsItem item{kLane, step.begin,
                                 rows.subspan(step.begin * width, step.size() * width), true};
    SKIPPY_RETURN_IF_ERROR(stage.runtime.stage->DecodeRows({&item, 1}));
    left.Add(stage.runtime, step);
  }
  return left;
}

class HollowFile {
 public:
  explicit HollowFile(std::string folder) : folder_(std::move(folder)) {}
  ~HollowFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  HollowFile(const HollowFile&) = delete;
  HollowFile& operator=(const HollowFile&) = delete;
  Status Write(const Source& source, const SlicePlan& plan, const WriteProgress& progress) {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error)
      return Err(ErrorCode::kUnavailable, "cannot create '" + folder_ + "': " + error.message());
    SKIPPY_TRY([[maybe_unused]] const WrittenFile written,
               WriteSlice(source, plan, path(), progress));
    return {};
  }
  std::string path() const { return folder_ + "/" + kSliceName; }

 private:
  const std::string folder_;
};

struct Reference {
  std::vector<float> enters;
  Left leaves;
};

Result<Reference> RunHollow(const std::string& path, const SlicePlan& plan,
                            const EmbeddingTable& embedding, const CheckOptions& options,
                            const GoOn& go_on) {
  SKIPPY_TRY(const std::unique_ptr<llama::Model> model,
             llama::Model::Load({.path = path, .adapters = {}}));
  const std::vector<Token> tokens = SomeTokens(embedding.tokens(), options.prompt + options.steps);
  Reference reference;
  if (plan.layers.begin == 0) {
    reference.enters.resize(tokens.size() * embedding.width());
    SKIPPY_RETURN_IF_ERROR(embedding.Rows(tokens, reference.enters));
  } else {
    SKIPPY_TRY(Left before, RunTokens(*model, plan.input, tokens, options, go_on));
    reference.enters = std::move(before.values);
  }
  SKIPPY_TRY(reference.leaves, RunTokens(*model, plan.output, tokens, options, go_on));
  return reference;
}

}  // namespace

CheckOptions CheckOptionsFor(const Source& source) {
  CheckOptions options;
  const families::ModelFacts& facts = source.facts();
  for (const char* key : {"attention.sliding_window", "attention.indexer.top_k"}) {
    const auto found = facts.numbers.find(facts.architecture + "." + key);
    if (found == facts.numbers.end()) continue;
    for (const double value : found->second.values)
      if (value > 0) options.prompt = std::max(options.prompt, BeyondOf(value));
  }
  const Pos positions = options.prompt + options.steps;
  options.runtime.context = std::max(options.runtime.context, (positions + 255) / 256 * 256);
  return options;
}

Result<CheckResult> CheckStages(const std::string& model, const std::string& vocabulary,
                                const std::vector<std::string>& stages, const CheckOptions& options,
                                const std::function<bool()>& go_on) {
  SKIPPY_TRY(const std::unique_ptr<llama::Model> whole,
             llama::Model::Load({.path = model, .adapters = {}}));
  SKIPPY_TRY(const auto reference, llama::MakeRuntime(*whole, options.runtime));
  SKIPPY_TRY(const std::unique_ptr<Chain> chain, Chain::Load(vocabulary, stages, options.runtime));
  std::vector<Token> tokens = SomeTokens(reference->info().vocab, options.prompt);
  CheckResult result;
  for (const PosRange at : StepsOf(options)) {
    if (go_on && !go_on()) return Err(ErrorCode::kCancelled, kInterrupted);
    result.positions = at.end;
    const TokenSpan step = TokenSpan(tokens).subspan(at.begin, at.size());
    const runtime::DecodeItem item{kLane, at.begin, step, true};
    SKIPPY_RETURN_IF_ERROR(reference->Decode({&item, 1}));
    SKIPPY_RETURN_IF_ERROR(chain->Decode(kLane, at.begin, step, true));
    const std::span<const float> logits = reference->Logits(0);
    Compare(logits, chain->Logits(), at.end - 1, result);
    if (at.end < options.prompt) continue;
    const auto best = std::max_element(logits.begin(), logits.end());
    tokens.push_back(static_cast<Token>(best - logits.begin()));
  }
  return result;
}

Result<CheckResult> CheckAlone(const Source& source, const std::string& vocabulary,
                               const std::string& stage, const std::string& scratch,
                               const CheckOptions& options, const WriteProgress& progress) {
  SKIPPY_TRY(const Manifest manifest, ReadManifest(stage));
  SKIPPY_TRY(const families::Family family, FamilyOf(source));
  SKIPPY_TRY(const SlicePlan plan, PlanHollow(source, family, manifest.layers));
  SKIPPY_TRY(const auto embedding, EmbeddingTable::Open(vocabulary));
  std::uint64_t written = 0;
  const WriteProgress writing = [&](std::uint64_t done, std::uint64_t total) {
    written = total;
    return !progress || progress(done, total);
  };
  const GoOn go_on = [&]() -> Status {
    if (writing(written, written)) return {};
    return Err(ErrorCode::kCancelled, kInterrupted);
  };
  Reference reference;
  {
    HollowFile hollow(scratch);
    SKIPPY_RETURN_IF_ERROR(hollow.Write(source, plan, writing));
    SKIPPY_TRY(reference, RunHollow(hollow.path(), plan, *embedding, options, go_on));
  }
  SKIPPY_TRY(const Left staged, RunRows(stage, reference.enters, options, go_on));
  const Left& whole = reference.leaves;
  CheckResult result;
  result.positions = options.prompt + options.steps;
  if (staged.positions != whole.positions || staged.values.size() != whole.values.size())
    return Err(ErrorCode::kInternal, "the stage gives other rows than the model");
  for (std::size_t i = 0; i < whole.positions.size(); ++i)
    Compare(whole.Row(i), staged.Row(i), whole.positions[i], result);
  return result;
}

}  // namespace skippy::stage
