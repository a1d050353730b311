#include "pipeline/agreement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "pipeline/pipeline_testing.h"

namespace skippy::pipeline {
namespace {

using enum runtime::fake::ShapeKind;

FakeStageOptions Options() {
  FakeStageOptions options;
  options.model = {kAttention, kRecurrent, kWindow, kMla, kAttention};
  return options;
}

std::vector<DescribedStage> Describe(const FakeStageOptions& model, const Cut& cut) {
  std::vector<DescribedStage> stages;
  for (const auto& [begin, end] : cut) {
    FakeStageOptions options = model;
    options.begin = begin;
    options.end = end;
    FakeStage stage(options);
    PieceStore store(100);
    StageHost host(PackageOf(options), stage, store);
    stages.push_back({"10.0.0." + std::to_string(begin) + ":9", *host.Attach()});
  }
  return stages;
}

std::vector<DescribedStage> Stages(const Cut& cut = {{0, 2}, {2, 4}, {4, 5}}) {
  return Describe(Options(), cut);
}

std::vector<std::string> Addresses(const std::vector<DescribedStage>& stages) {
  std::vector<std::string> addresses;
  for (const DescribedStage& stage : stages) addresses.push_back(stage.address);
  return addresses;
}

void ExpectRefused(std::vector<DescribedStage> stages, const std::vector<std::string>& says,
                   const Coordinator& coordinator = CoordinatorOf(Options())) {
  const Status agreed = Agree(coordinator, stages);
  ASSERT_FALSE(agreed) << "should say: " << says.front();
  EXPECT_EQ(agreed.error().code, ErrorCode::kInvalidArgument);
  for (const std::string& part : says)
    EXPECT_NE(agreed.error().message.find(part), std::string::npos)
        << "'" << part << "' in: " << agreed.error().message;
}

TEST(Agree, TakesStagesInAnyOrderAndSortsThem) {
  std::vector<DescribedStage> stages = Stages();
  std::vector<std::size_t> order = {0, 1, 2};
  do {
    std::vector<DescribedStage> given;
    for (const std::size_t i : order) given.push_back(stages[i]);
    ASSERT_TRUE(Agree(CoordinatorOf(Options()), given));
    EXPECT_EQ(Addresses(given), Addresses(stages));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Agree, OneStageOfAllLayersIsAModel) {
  std::vector<DescribedStage> stages = Stages({{0, 5}});
  EXPECT_TRUE(Agree(CoordinatorOf(Options()), stages));
}

TEST(Agree, NoStagesAreNoModel) { ExpectRefused({}, {"--stages"}); }

TEST(Agree, GapsAreNamedByTheirLayers) {
  ExpectRefused(Stages({{0, 2}, {4, 5}}), {"2..4", "start"});
  ExpectRefused(Stages({{2, 4}, {4, 5}}), {"0..2", "start"});
  ExpectRefused(Stages({{0, 2}, {2, 4}}), {"4..5", "start"});
  ExpectRefused(Stages({{2, 3}}), {"0..2", "start"});
}

TEST(Agree, OverlapsNameTheStageAndItsAddress) {
  ExpectRefused(Stages({{0, 3}, {2, 5}}), {"2..5", "10.0.0.2:9", "overlap"});
  ExpectRefused(Stages({{0, 5}, {2, 4}}), {"2..4", "10.0.0.2:9", "overlap"});
  // The same stage twice, as when an address is named twice.
  ExpectRefused(Stages({{0, 2}, {2, 4}, {2, 4}, {4, 5}}), {"2..4", "10.0.0.2:9"});
  ExpectRefused(Stages({{0, 5}, {0, 5}}), {"0..5", "10.0.0.0:9"});
}

TEST(Agree, StagesOfAnotherModelAreNamedWithBoth) {
  std::vector<DescribedStage> stages = Stages();
  stages[1].description.package.model = DigestOf("other");
  stages[1].description.package.model_name = "Other.gguf";
  ExpectRefused(stages, {"2..4", "10.0.0.2:9", "Other.gguf", "M.gguf"});
  stages = Stages();
  stages[2].description.package.model_layers = 6;
  ExpectRefused(stages, {"10.0.0.4:9", "6", "5"});
}

TEST(Agree, RangesThatAreNoneAreRefused) {
  std::vector<DescribedStage> stages = Stages();
  stages[1].description.package.layers = {3, 2};
  ExpectRefused(stages, {"10.0.0.2:9"});
  stages = Stages();
  stages[1].description.package.layers = {2, 2};
  ExpectRefused(stages, {"10.0.0.2:9"});
  stages = Stages();
  stages[2].description.package.layers = {4, 6};
  ExpectRefused(stages, {"10.0.0.4:9"});
}

TEST(Agree, WidthsThatDoNotFitAreNamedWithBoth) {
  std::vector<DescribedStage> stages = Stages();
  stages[1].description.input_width = 16;
  ExpectRefused(stages, {"2..4", "10.0.0.2:9", "16", "12"});
  stages = Stages();
  stages[0].description.output_width = 16;
  ExpectRefused(stages, {"16", "12"});
  Coordinator coordinator = CoordinatorOf(Options());
  coordinator.width = 20;
  ExpectRefused(Stages(), {"0..2", "10.0.0.0:9", "20", "12"}, coordinator);
}

TEST(Agree, LogitsLeaveTheLastStageAndNoOther) {
  std::vector<DescribedStage> stages = Stages();
  stages[0].description.output_width = 0;
  ExpectRefused(stages, {"0..2", "10.0.0.0:9"});
  stages = Stages();
  stages[2].description.output_width = 12;
  ExpectRefused(stages, {"4..5", "10.0.0.4:9"});
  Coordinator coordinator = CoordinatorOf(Options());
  coordinator.vocab = 100;
  ExpectRefused(Stages(), {"4..5", "10.0.0.4:9", "100", "64"}, coordinator);
}

// Settings that all stages must have alike, and a value that differs.
struct Setting {
  std::string name;
  std::function<void(runtime::RuntimeInfo&)> set = {};
  std::vector<std::string> says = {};
};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

using Info = runtime::RuntimeInfo;

std::vector<Setting> Settings() {
  return {
      {"context", [](Info& info) { info.context = 4096; }, {"4096", "512", "-c"}},
      {"cells", [](Info& info) { info.identity.context = 4096; }, {"4096", "512", "-c"}},
      {"lanes", [](Info& info) { info.lanes = 7; }, {"7", "2", "-np"}},
      {"chunk", [](Info& info) { info.chunk = 99; }, {"99", "16", "-ub"}},
      {"keys", [](Info& info) { info.identity.kv_type_k = "q8_0"; }, {"q8_0", "-ctk"}},
      {"values", [](Info& info) { info.identity.kv_type_v = "q8_0"; }, {"q8_0", "-ctv"}},
      {"build", [](Info& info) { info.identity.runtime_build = "b1234"; }, {"b1234"}},
      {"flash", [](Info& info) { info.identity.flash_attention = false; }, {"-fa"}},
      {"swa", [](Info& info) { info.identity.swa_full = true; }, {"--swa-full"}},
      {"rope", [](Info& info) { info.identity.rope = "yarn"; }, {"yarn", "rope"}},
      {"streams", [](Info& info) { info.identity.streams = 1; }, {"1", "2"}},
      {"state", [](Info& info) { info.identity.state_version = 9; }, {"9"}},
  };
}

class AgreeSettings : public testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(Settings, AgreeSettings, testing::ValuesIn(Settings()),
                         [](const auto& setting) { return setting.param.name; });

TEST_P(AgreeSettings, AreNamedWithBothValuesAndBothStages) {
  for (const std::size_t stage : {1U, 2U}) {
    std::vector<DescribedStage> stages = Stages();
    GetParam().set(stages[stage].description.info);
    std::vector<std::string> says = GetParam().says;
    says.push_back(stages[stage].address);
    says.push_back(ToString(stages[stage].description.package.layers));
    ExpectRefused(stages, says);
  }
}

TEST(Agree, StagesOfUnlikeLayersAgree) {
  // Other memory, other policies, other files and a vocabulary of dummies: not settings.
  std::vector<DescribedStage> stages = Stages({{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}});
  EXPECT_TRUE(Agree(CoordinatorOf(Options()), stages));
}

TEST(Agree, WindowsOfUnlikeLengthAreRefused) {
  FakeStageOptions options = Options();
  options.model = {kWindow, kAttention, kWindow};
  std::vector<DescribedStage> stages = Describe(options, {{0, 1}, {1, 2}, {2, 3}});
  ASSERT_TRUE(Agree(CoordinatorOf(options), stages));
  stages[2].description.info.shape.window_tokens = 48;
  ExpectRefused(stages, {"2..3", "10.0.0.2:9", "48", "24"}, CoordinatorOf(options));
}

// --- together

runtime::RuntimeInfo TogetherOf(const std::vector<DescribedStage>& stages,
                                const Coordinator& coordinator = CoordinatorOf(Options())) {
  std::vector<DescribedStage> sorted = stages;
  EXPECT_TRUE(Agree(coordinator, sorted));
  return Together(coordinator, sorted);
}

Digest KeyOf(const Identity& identity) { return MakeNamespace(identity, "").key; }

TEST(Together, IsTheModel) {
  const runtime::RuntimeInfo info = TogetherOf(Stages());
  EXPECT_EQ(info.lanes, 2U);
  EXPECT_EQ(info.context, 512U);
  EXPECT_EQ(info.chunk, 16U);
  EXPECT_EQ(info.vocab, 64U);
  EXPECT_EQ(info.policy, PayloadPolicy::kKvRecurrent);
  EXPECT_EQ(info.policy_reason, "");
  EXPECT_EQ(info.identity.model, CoordinatorOf(Options()).model);
  EXPECT_EQ(info.identity.tokenizer, DigestOf("tokenizer"));
  EXPECT_EQ(info.identity.architecture, "fake");
  EXPECT_EQ(info.identity.layer_begin, 0U);
  EXPECT_EQ(info.identity.layer_end, 5U);
}

TEST(Together, HasNamesForTheStateThatAnyStageHas) {
  const MemoryShape all = TogetherOf(Stages()).shape;
  EXPECT_TRUE(all.HasKv() && all.HasWindow() && all.HasSnapshot());
  EXPECT_EQ(all.window_tokens, 24U);
  EXPECT_EQ(all.logits_bytes, 64 * sizeof(float));
  EXPECT_EQ(TogetherOf(Stages({{0, 5}})).shape, all);
  struct Case {
    std::vector<ShapeKind> model;
    bool kv, window, snapshot;
  };
  for (const Case& one : {Case{{kAttention, kMla}, true, false, false},
                          Case{{kWindowOnly, kWindowOnly}, false, true, false},
                          Case{{kRecurrent, kRecurrent}, false, false, true},
                          Case{{kRecurrent, kAttention}, true, false, true}}) {
    FakeStageOptions options = Options();
    options.model = one.model;
    const runtime::RuntimeInfo info =
        TogetherOf(Describe(options, {{0, 1}, {1, 2}}), CoordinatorOf(options));
    EXPECT_EQ(info.shape.HasKv(), one.kv);
    EXPECT_EQ(info.shape.HasWindow(), one.window);
    EXPECT_EQ(info.shape.HasSnapshot(), one.snapshot);
    EXPECT_EQ(info.shape.window_tokens, one.window ? 24U : 0U);
    EXPECT_EQ(info.policy, one.snapshot ? PayloadPolicy::kKvRecurrent : PayloadPolicy::kResidentKv);
  }
}

TEST(Together, WithOneStageThatMayNotBeCachedNothingIs) {
  std::vector<DescribedStage> stages = Stages();
  stages[1].description.info.policy = PayloadPolicy::kOff;
  stages[1].description.info.policy_reason = "its exports are not exact";
  const runtime::RuntimeInfo info = TogetherOf(stages);
  EXPECT_EQ(info.policy, PayloadPolicy::kOff);
  EXPECT_NE(info.policy_reason.find("its exports are not exact"), std::string::npos);
  EXPECT_NE(info.policy_reason.find("2..4"), std::string::npos) << info.policy_reason;
}

TEST(Together, TheIdentityDoesNotTellWhereTheModelIsCut) {
  const Identity identity = TogetherOf(Stages()).identity;
  for (const Cut& cut : runtime::fake::CutsOf(5)) {
    std::vector<DescribedStage> stages = Stages(cut);
    for (DescribedStage& stage : stages) stage.address = "elsewhere";
    EXPECT_EQ(TogetherOf(stages).identity, identity);
  }
}

TEST(Together, UnlikeDevicesOrThreadsMakeTheCutCount) {
  const auto with = [](const Cut& cut, std::size_t which, const std::string& device,
                       std::uint32_t threads) {
    std::vector<DescribedStage> stages = Stages(cut);
    stages[which].description.info.identity.device = device;
    stages[which].description.info.identity.threads = threads;
    return KeyOf(TogetherOf(stages).identity);
  };
  const Cut cut = {{0, 2}, {2, 5}};
  const Cut other = {{0, 3}, {3, 5}};
  // Each of them computes other bits than each other.
  std::set<Digest> identities = {
      KeyOf(TogetherOf(Stages(cut)).identity),
      with(cut, 0, "cuda", 1),
      with(cut, 1, "cuda", 1),
      with(other, 0, "cuda", 1),
      with(other, 1, "cuda", 1),
      with(cut, 0, "fake", 8),
      with(cut, 1, "fake", 8),
      with(cut, 1, "cuda", 8),
  };
  EXPECT_EQ(identities.size(), 8U);
  // All alike, but not as before: another one too, wherever it is cut.
  const auto all = [](const Cut& where) {
    std::vector<DescribedStage> stages = Stages(where);
    for (DescribedStage& stage : stages) stage.description.info.identity.threads = 8;
    return KeyOf(TogetherOf(stages).identity);
  };
  EXPECT_EQ(all(cut), all(other));
  EXPECT_TRUE(identities.insert(all(cut)).second);
}

TEST(Together, AWireThatLosesBitsHasAnIdentityOfItsOwn) {
  std::set<Digest> identities;
  const auto add = [&](WireFormat wire, const Cut& cut) {
    Coordinator coordinator = CoordinatorOf(Options());
    coordinator.wire = wire;
    return identities.insert(KeyOf(TogetherOf(Stages(cut), coordinator).identity)).second;
  };
  const Cut cut = {{0, 2}, {2, 5}};
  const Cut other = {{0, 3}, {3, 5}};
  EXPECT_TRUE(add(WireFormat::kF32, cut));
  EXPECT_FALSE(add(WireFormat::kF32, other));
  for (const WireFormat wire : {WireFormat::kBf16, WireFormat::kF16, WireFormat::kInt8}) {
    EXPECT_TRUE(add(wire, cut));
    EXPECT_TRUE(add(wire, other));  // rounded elsewhere
  }
}

TEST(Together, OtherModelsAndSettingsAreOtherIdentities) {
  const Identity identity = TogetherOf(Stages()).identity;
  FakeStageOptions options = Options();
  options.weights_seed = 2;
  EXPECT_NE(TogetherOf(Describe(options, {{0, 5}}), CoordinatorOf(options)).identity, identity);
  options = Options();
  options.chunk = 8;
  EXPECT_NE(TogetherOf(Describe(options, {{0, 5}}), CoordinatorOf(options)).identity, identity);
  Coordinator coordinator = CoordinatorOf(Options());
  coordinator.tokenizer = DigestOf("another");
  EXPECT_NE(TogetherOf(Stages(), coordinator).identity, identity);
}

}  // namespace
}  // namespace skippy::pipeline
