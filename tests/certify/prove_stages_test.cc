// The self-test on a model in stages: what is tried is that all stages bring back what they would
// compute, since the exports that the coordinator has are names.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "certify/certificate_store.h"
#include "certify/prove.h"
#include "pipeline/pipeline_testing.h"
#include "skippy/random.h"

namespace skippy::certify {
namespace {

using namespace pipeline;  // NOLINT(google-build-using-namespace): a test about its classes

// Keeps what it is told to, and then its memory rots.
class RottingLink final : public StageLink {
 public:
  RottingLink(StageHost& host, PieceStore& store, std::uint32_t layers)
      : link_(host), store_(store), layers_(layers) {
    std::iota(layers_.begin(), layers_.end(), 0U);
  }
  const std::string& address() const override { return link_.address(); }
  Result<StageDescription> Attach() override { return link_.Attach(); }
  Result<StageOutput> Decode(std::span<const runtime::RowsItem> items) override {
    return link_.Decode(items);
  }
  Status Clear(SeqId lane) override { return link_.Clear(lane); }
  Result<LanePlace> Truncate(SeqId lane, Pos end) override { return link_.Truncate(lane, end); }
  Result<LanePlace> Copy(SeqId from, SeqId to) override { return link_.Copy(from, to); }
  Status Keep(SeqId lane, const PieceKey& piece) override {
    SKIPPY_RETURN_IF_ERROR(link_.Keep(lane, piece));
    auto layers = store_.Find(piece, layers_);
    for (auto& [layer, bytes] : layers) {
      auto rotten = std::make_shared<std::vector<std::byte>>(*bytes);
      for (std::byte& byte : *rotten) byte ^= std::byte{1};
      bytes = rotten;
    }
    return store_.Put(piece, layers);
  }
  Result<std::vector<bool>> Held(std::span<const PieceKey> pieces) override {
    return link_.Held(pieces);
  }
  Result<std::vector<PieceKey>> Find(std::span<const Digest> names) override {
    return link_.Find(names);
  }
  Status Forget() override { return link_.Forget(); }
  Result<LanePlace> Restore(const StageRestore& restore) override { return link_.Restore(restore); }

 private:
  LocalLink link_;
  PieceStore& store_;
  std::vector<std::uint32_t> layers_;
};

class ProveStages : public testing::TestWithParam<NamedModel> {
 protected:
  ProveStages() : folder_(testing::TempDir() + "/prove-" + std::to_string(RandomBits())) {
    options_.folder = folder_;
    options_.say = [this](const std::string& line) { said_ += line + "\n"; };
    fake_.model = GetParam().layers;
  }
  ~ProveStages() override { Forget(); }
  void Forget() const {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Cut TwoStages() const { return {{0, 2}, {2, static_cast<std::uint32_t>(fake_.model.size())}}; }
  bool Kept(const runtime::Runtime& runtime) const {
    return CertificateStore(folder_).Load(runtime.info().identity).has_value();
  }

  const std::string folder_;
  FakeStageOptions fake_;
  ProveOptions options_;
  std::string said_;
};

TEST_P(ProveStages, HonestStagesAreExactAlsoWhenTheyRememberAnEarlierTest) {
  Pipeline::Setup setup;
  setup.options = fake_;
  setup.cut = TwoStages();
  Pipeline stages(setup);
  ASSERT_TRUE(stages.runtime) << stages.error->message;
  for (int round = 0; round < 2; ++round) {
    const auto proof = ProveExact(*stages.runtime, options_);
    ASSERT_TRUE(proof) << proof.error().message;
    EXPECT_TRUE(proof->exact) << proof->words;
    EXPECT_TRUE(Kept(*stages.runtime));
    for (FaultyLink* link : stages.links) EXPECT_GT(link->restores, 0U);
    Forget();  // the certificate; the stages still have what was kept
  }
}

TEST_P(ProveStages, AStageWhoseMemoryRotsIsFoundAndTriedAgain) {
  std::vector<std::unique_ptr<StageProcess>> processes;
  std::vector<std::unique_ptr<StageLink>> links;
  for (const auto& [begin, end] : TwoStages()) {
    FakeStageOptions own = fake_;
    own.begin = begin;
    own.end = end;
    processes.push_back(std::make_unique<StageProcess>(own, std::uint64_t{1} << 26U));
    StageProcess& process = *processes.back();
    if (begin == 0) {
      links.push_back(std::make_unique<LocalLink>(process.host()));
    } else {
      links.push_back(std::make_unique<RottingLink>(process.host(), process.store(), end));
    }
  }
  const TestRows rows(fake_);
  const auto runtime = PipelineRuntime::Make(CoordinatorOf(fake_), std::move(links), rows);
  ASSERT_TRUE(runtime) << runtime.error().message;
  const auto proof = ProveExact(**runtime, options_);
  ASSERT_TRUE(proof) << proof.error().message;
  EXPECT_FALSE(proof->exact) << proof->words;
  EXPECT_FALSE(Kept(**runtime)) << "a stage may be well again";
}

INSTANTIATE_TEST_SUITE_P(Models, ProveStages, testing::ValuesIn(runtime::fake::FakeModels()),
                         [](const auto& model) { return model.param.name; });

}  // namespace
}  // namespace skippy::certify
