// Models in stages on llama.cpp, served as one runtime: the whole model's bits, also behind what
// the stages kept, also when the model is cut elsewhere meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <set>

#include "families/identify.h"
#include "fixtures/fixtures.h"
#include "model/gguf_builder.h"
#include "model/harness.h"
#include "pipeline/piece_store.h"
#include "pipeline/pipeline_runtime.h"
#include "pipeline/stage_host.h"
#include "stage/load.h"
#include "stage/slice_plan.h"
#include "stage/split.h"

namespace skippy::model_test {
namespace {

constexpr SeqId kLane{1};
constexpr Pos kPage = 8;
constexpr Pos kPrefix = 32;  // on the chunks' grid, where a cold run passes too
constexpr Pos kEnd = 41;
constexpr int kSteps = 3;
const runtime::RuntimeOptions kSettings{.context = 256, .lanes = 2, .chunk = 16, .threads = 1};

// Stages of this process.
class Stages {
 public:
  Status Load(const std::vector<stage::Package>& packages, pipeline::PieceStore& store) {
    SKIPPY_TRY(vocabulary_, stage::LoadVocabulary(packages.front().folder));
    const stage::ModelRecord& model = vocabulary_.manifest.model;
    std::vector<std::unique_ptr<pipeline::StageLink>> links;
    for (std::size_t i = 1; i < packages.size(); ++i) {
      SKIPPY_TRY(auto loaded, stage::LoadStage(packages[i].folder, {.runtime = kSettings}));
      stages_.push_back(std::make_unique<stage::LoadedStage>(std::move(loaded)));
      hosts_.push_back(std::make_unique<pipeline::StageHost>(
          stage::PackageOf(stages_.back()->manifest), *stages_.back()->runtime.runtime, store));
      links.push_back(std::make_unique<pipeline::LocalLink>(*hosts_.back()));
    }
    pipeline::Coordinator coordinator;
    coordinator.model = model.digest;
    coordinator.model_name = model.name;
    coordinator.tokenizer = vocabulary_.model->tokenizer_digest();
    coordinator.layers = model.layers;
    coordinator.width = vocabulary_.rows->width();
    coordinator.vocab = vocabulary_.rows->tokens();
    SKIPPY_TRY(runtime_,
               pipeline::PipelineRuntime::Make(coordinator, std::move(links), *vocabulary_.rows));
    return {};
  }
  runtime::Runtime& runtime() { return *runtime_; }

 private:
  stage::LoadedVocabulary vocabulary_;
  std::vector<std::unique_ptr<stage::LoadedStage>> stages_;
  std::vector<std::unique_ptr<pipeline::StageHost>> hosts_;
  std::unique_ptr<pipeline::PipelineRuntime> runtime_;
};

class PipelineFixture : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    path_ = std::string(SKIPPY_FIXTURE_DIR) + "/" + GetParam() + "-tiny.gguf";
    const auto source = stage::Source::Open(path_);
    ASSERT_TRUE(source) << source.error().message;
    const auto match = families::Identify(*families::EmbeddedFamilies(), (*source)->facts());
    ASSERT_NE(match.family, nullptr);
    if (!match.family->stages.refused.empty()) return;
    const auto begins = stage::BeginsOf(**source, *match.family);
    ASSERT_TRUE(begins) << begins.error().message;
    most_ = static_cast<std::uint32_t>(begins->size());
  }
  std::vector<stage::Package> Cut(std::uint32_t stages) {
    stage::SplitOptions options;
    options.model = path_;
    options.stages = stages;
    options.out = folder_.Path(std::to_string(stages));
    auto packages = stage::Split(options, {});
    EXPECT_TRUE(packages) << packages.error().message;
    return packages ? std::move(*packages) : std::vector<stage::Package>();
  }
  // From where the lane is.
  static Continuation Finish(runtime::Runtime& runtime, const std::vector<Token>& tokens) {
    const auto first = Prefill(runtime, kLane, tokens, kEnd);
    EXPECT_TRUE(first) << first.error().message;
    if (!first) return {};
    auto rest = Generate(runtime, kLane, *first, kSteps);
    EXPECT_TRUE(rest) << rest.error().message;
    return rest ? std::move(*rest) : Continuation{};
  }

  TempFolder folder_;
  std::string path_;
  std::uint32_t most_ = 0;  // stages; 0: this family cannot be cut
};

TEST_P(PipelineFixture, StagesAreTheModelAlsoBehindWhatTheyKept) {
  if (most_ == 0) return;
  const auto model = LoadModel(path_);
  ASSERT_NE(model, nullptr);
  const auto whole = llama::MakeRuntime(*model, kSettings);
  ASSERT_TRUE(whole) << whole.error().message;
  const std::vector<Token> tokens = RandomPrompt(**whole, kEnd, 7);
  const Continuation cold = Finish(**whole, tokens);

  pipeline::PieceStore store(std::uint64_t{64} << 20U);
  SavedState names;
  {
    Stages stages;
    const Status loaded = stages.Load(Cut(std::min(2U, most_)), store);
    ASSERT_TRUE(loaded) << loaded.error().message;
    runtime::Runtime& runtime = stages.runtime();
    EXPECT_NE(runtime.info().policy, PayloadPolicy::kOff) << runtime.info().policy_reason;
    EXPECT_EQ(runtime.info().vocab, (*whole)->info().vocab);
    ASSERT_TRUE(Prefill(runtime, kLane, tokens, kPrefix));
    const auto saved = Save(runtime, kLane, kPage);
    ASSERT_TRUE(saved) << saved.error().message;
    names = *saved;
    EXPECT_TRUE(SameBits(Finish(runtime, tokens), cold)) << "computed";
    const Status restored = RestoreInto(runtime, kLane, names, tokens, kPrefix);
    ASSERT_TRUE(restored) << restored.error().message;
    EXPECT_TRUE(SameBits(Finish(runtime, tokens), cold)) << "behind what was kept";
  }
  // Other processes, other cuts, what was kept by the first.
  for (const std::uint32_t cut : std::set<std::uint32_t>{1, std::min(3U, most_), most_}) {
    SCOPED_TRACE(std::to_string(cut) + " stages");
    Stages stages;
    const Status loaded = stages.Load(Cut(cut), store);
    ASSERT_TRUE(loaded) << loaded.error().message;
    const Status restored = RestoreInto(stages.runtime(), kLane, names, tokens, kPrefix);
    ASSERT_TRUE(restored) << restored.error().message;
    EXPECT_TRUE(SameBits(Finish(stages.runtime(), tokens), cold)) << "cut elsewhere";
  }
}

INSTANTIATE_TEST_SUITE_P(Families, PipelineFixture, testing::ValuesIn(fixtures::FamilyNames()),
                         [](const auto& family) {
                           std::string name = family.param;
                           for (char& c : name)
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           return name;
                         });

}  // namespace
}  // namespace skippy::model_test
