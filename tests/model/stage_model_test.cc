// Models cut into stages, on llama.cpp: the stages one behind the other give the whole model's
// bits.
#include <gtest/gtest.h>
#include <llama.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "families/identify.h"
#include "fixtures/fixtures.h"
#include "llama/model_facts.h"
#include "llama/text_tokens.h"
#include "model/harness.h"
#include "pipeline/wire.h"
#include "stage/certify_stage.h"
#include "stage/chain.h"
#include "stage/load.h"
#include "stage/self_check.h"
#include "stage/split.h"
#include "stage/wire_table.h"

namespace skippy::stage {
namespace {

class Folder {
 public:
  Folder() {
    std::string pattern = testing::TempDir() + "stages-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string FixturePath(const std::string& name) {
  return std::string(SKIPPY_FIXTURE_DIR) + "/" + name + "-tiny.gguf";
}

CheckResult MustEqual(const std::string& model, const SplitOptions& options) {
  const auto packages = Split(options, {});
  EXPECT_TRUE(packages) << packages.error().message;
  if (!packages) return {};
  std::vector<std::string> stages;
  for (const Package& package : *packages)
    if (package.manifest.kind == "stage") stages.push_back(package.folder);
  const auto result = CheckStages(model, options.out + "/vocabulary", stages, {});
  EXPECT_TRUE(result) << result.error().message;
  if (!result) return {};
  EXPECT_TRUE(result->Passed()) << result->equal << " of " << result->compared
                                << " rows of logits are equal, first difference at "
                                << result->first_difference << ", largest "
                                << result->largest_difference;
  return *result;
}

class CutFixture : public testing::TestWithParam<std::string> {};

TEST_P(CutFixture, StagesGiveTheBitsOfTheWholeOrTheReasonWhyNot) {
  const Folder folder;
  SplitOptions options;
  options.model = FixturePath(GetParam());
  options.out = folder.path();
  const auto facts = llama::ReadModelFacts(options.model);
  ASSERT_TRUE(facts) << facts.error().message;
  const auto source = Source::Open(options.model);
  ASSERT_TRUE(source) << source.error().message;
  const auto match = families::Identify(*families::EmbeddedFamilies(), *facts);
  ASSERT_NE(match.family, nullptr);
  const auto begins = BeginsOf(**source, *match.family);
  ASSERT_TRUE(begins) << begins.error().message;
  const auto most = static_cast<std::uint32_t>(begins->size());
  for (const std::uint32_t stages : {2U, 3U, most}) {
    if (stages > most) continue;
    options.stages = stages;
    options.out = folder.path() + "/" + std::to_string(stages);
    if (!match.family->stages.refused.empty()) {
      const auto refused = Split(options, {});
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
      EXPECT_NE(refused.error().message.find(match.family->stages.refused), std::string::npos);
      EXPECT_FALSE(std::filesystem::exists(options.out)) << "nothing is written";
      continue;
    }
    SCOPED_TRACE(std::to_string(stages) + " stages");
    MustEqual(options.model, options);
  }
}

// What a stage exports, layer by layer, under the whole model's numbers; dummies left out.
class LayerState {
 public:
  // Exports the lane's rows [0, end) and its snapshot.
  void Add(const LoadedStage& stage, SeqId lane, Pos end) {
    runtime::Runtime& runtime = *stage.runtime.runtime;
    const MemoryShape& shape = runtime.info().shape;
    ASSERT_EQ(runtime.WindowHeldFrom(lane), 0U);
    for (const auto& [component, bytes] : {std::pair{Component::kKv, shape.kv_row_bytes},
                                           std::pair{Component::kWindow, shape.window_row_bytes},
                                           std::pair{Component::kSnapshot, shape.snapshot_bytes}}) {
      const bool snapshot = component == Component::kSnapshot;
      const std::uint64_t rows = snapshot ? 1 : end;
      std::vector<std::byte> block(bytes * rows);
      if (bytes > 0) {
        const Status exported = snapshot ? runtime.ExportSnapshot(lane, block)
                                         : runtime.ExportRows(lane, component, {0, end}, block);
        ASSERT_TRUE(exported) << exported.error().message;
      }
      std::uint64_t at = 0;
      for (const runtime::StatePart& part : stage.runtime.stage->Parts(component)) {
        ASSERT_LE(at + part.bytes * rows, block.size());
        AddPart(stage.manifest, component, part, std::span(block).subspan(at, part.bytes * rows));
        at += part.bytes * rows;
      }
      EXPECT_EQ(at, block.size()) << "the parts are not all that is exported";
    }
  }

  std::map<std::uint32_t, std::vector<std::byte>> layers;
  std::uint64_t row_bytes = 0;  // of all layers
  std::uint64_t snapshot_bytes = 0;

 private:
  void AddPart(const Manifest& manifest, Component component, const runtime::StatePart& part,
               ByteSpan bytes) {
    const std::uint32_t front = manifest.dummies_in_front;
    if (part.layer < front || part.layer - front >= manifest.layers.size()) return;
    (component == Component::kSnapshot ? snapshot_bytes : row_bytes) += part.bytes;
    std::vector<std::byte>& layer = layers[manifest.layers.begin + part.layer - front];
    layer.insert(layer.end(), bytes.begin(), bytes.end());
  }
};

// Cuts the model, sends tokens through the stages in chunks and then one by one.
LayerState StateOfStages(const SplitOptions& options, const runtime::RuntimeOptions& settings) {
  constexpr SeqId kLane{1};
  LayerState state;
  const auto packages = Split(options, {});
  EXPECT_TRUE(packages) << packages.error().message;
  if (!packages) return state;
  const auto embedding = EmbeddingTable::Open(packages->front().folder);
  EXPECT_TRUE(embedding) << embedding.error().message;
  if (!embedding) return state;
  std::vector<LoadedStage> stages;
  for (std::size_t i = 1; i < packages->size(); ++i) {
    auto stage = LoadStage((*packages)[i].folder, {.runtime = settings});
    EXPECT_TRUE(stage) << stage.error().message;
    if (!stage) return state;
    EXPECT_NE(stage->runtime.runtime->info().policy, PayloadPolicy::kOff)
        << stage->runtime.runtime->info().policy_reason;
    stages.push_back(std::move(*stage));
  }
  Pos end = 0;
  for (const Pos count : {16U, 5U, 1U, 1U}) {
    std::vector<Token> tokens(count);
    for (Pos i = 0; i < count; ++i) tokens[i] = static_cast<Token>(((end + i) * 37 + 11) % 200);
    std::vector<float> rows(std::size_t{count} * (*embedding)->width());
    EXPECT_TRUE((*embedding)->Rows(tokens, rows));
    for (const LoadedStage& stage : stages) {
      const runtime::RowsItem item{kLane, end, rows, false};
      const Status decoded = stage.runtime.stage->DecodeRows({&item, 1});
      EXPECT_TRUE(decoded) << decoded.error().message;
      const std::span<const float> left = stage.runtime.stage->OutputRows(0);
      rows.assign(left.begin(), left.end());
    }
    end += count;
  }
  for (const LoadedStage& stage : stages) state.Add(stage, kLane, end);
  return state;
}

TEST_P(CutFixture, EveryByteOfAStagesStateBelongsToALayerWhereverTheModelIsCut) {
  const Folder folder;
  SplitOptions options;
  options.model = FixturePath(GetParam());
  const auto source = Source::Open(options.model);
  ASSERT_TRUE(source) << source.error().message;
  const auto match = families::Identify(*families::EmbeddedFamilies(), (*source)->facts());
  ASSERT_NE(match.family, nullptr);
  if (!match.family->stages.refused.empty()) return;
  const auto begins = BeginsOf(**source, *match.family);
  ASSERT_TRUE(begins) << begins.error().message;
  const auto whole_model = model_test::LoadModel(options.model);
  ASSERT_NE(whole_model, nullptr);
  for (const bool flash_attention : {true, false}) {
    SCOPED_TRACE(flash_attention ? "flash attention" : "values transposed");
    const runtime::RuntimeOptions settings{
        .context = 256, .lanes = 2, .chunk = 16, .threads = 1, .flash_attention = flash_attention};
    const auto whole = llama::MakeRuntime(*whole_model, settings);
    ASSERT_TRUE(whole) << whole.error().message;
    const MemoryShape& shape = (*whole)->info().shape;
    const auto cut = [&](std::size_t stages) {
      options.stages = static_cast<std::uint32_t>(stages);
      options.out = folder.path() + "/" + std::to_string(stages);
      return StateOfStages(options, settings);
    };
    const LayerState fine = cut(begins->size());
    // A layer without a window in a stage of such layers may count as one with a window.
    EXPECT_EQ(fine.row_bytes, shape.kv_row_bytes + shape.window_row_bytes);
    EXPECT_EQ(fine.snapshot_bytes, shape.snapshot_bytes);
    const LayerState coarse = cut(std::min<std::size_t>(2, begins->size()));
    EXPECT_EQ(coarse.row_bytes, fine.row_bytes);
    EXPECT_EQ(coarse.snapshot_bytes, fine.snapshot_bytes);
    ASSERT_EQ(coarse.layers.size(), fine.layers.size());
    for (const auto& [layer, bytes] : fine.layers) {
      ASSERT_TRUE(coarse.layers.contains(layer)) << layer;
      EXPECT_EQ(coarse.layers.at(layer), bytes) << "layer " << layer;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, CutFixture, testing::ValuesIn(fixtures::FamilyNames()),
                         [](const auto& family) {
                           std::string name = family.param;
                           for (char& c : name)
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           return name;
                         });

// A model of 26 layers would be taken for a "lite" one.
TEST(CutDeep, StagesWithASpecialNumberOfLayersAreThatOfTheWhole) {
  const Folder folder;
  const auto tokenizer = fixtures::Tokenizer::FromGguf(fixtures::DefaultTokenizerPath());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto model = fixtures::WriteFixture({.family = "deepseek3", .layers = 29}, *tokenizer,
                                            folder.path() + "/model");
  ASSERT_TRUE(model) << model.error().message;
  for (const char* layers : {"0..26,26..29", "0..3,3..29"}) {
    SCOPED_TRACE(layers);
    SplitOptions options;
    options.model = model->path;
    options.layers = layers;
    options.out = folder.path() + "/" + layers;
    MustEqual(options.model, options);
  }
}

void CutRealModel(const std::string& file, const std::string& layers, std::uint64_t most_bytes) {
  const Folder folder;
  SplitOptions options;
  options.model = model_test::ModelPath(file);
  options.out = folder.path();
  options.layers = layers;
  const CheckResult result = MustEqual(options.model, options);
  EXPECT_GT(result.compared, 16U);
  // Stages without a head carry no vocabulary.
  const auto middle = ReadManifest(folder.path() + "/stage-" + layers.substr(0, layers.find(',')));
  ASSERT_TRUE(middle) << middle.error().message;
  EXPECT_LT(middle->bytes, most_bytes);
}

TEST(CutRealModel, SmolLm2InThree) {
  CutRealModel("smollm2-135m-instruct-q4_1.gguf", "0..10,10..20,20..30", 25'000'000);
}

TEST(CutRealModel, Gemma3InThree) {
  CutRealModel("gemma-3-270m-q4_k_m.gguf", "0..6,6..12,12..18", 25'000'000);
}

TEST(CutRealModel, Gemma3WithAStageWithoutAWindow) {
  CutRealModel("gemma-3-270m-q4_k_m.gguf", "0..5,5..6,6..18", 25'000'000);
}

TEST(Split, AnInterruptedRunIsContinuedToTheSameBytes) {
  const Folder folder;
  SplitOptions options;
  options.model = FixturePath("deepseek3");
  options.stages = 2;
  options.out = folder.path() + "/whole";
  const auto whole = Split(options, {});
  ASSERT_TRUE(whole) << whole.error().message;

  options.out = folder.path() + "/interrupted";
  int left = 3;
  const auto stopped =
      Split(options, [&](std::uint64_t, std::uint64_t, const std::string&) { return --left > 0; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  const auto again = Split(options, {});
  ASSERT_TRUE(again) << again.error().message;
  ASSERT_EQ(again->size(), whole->size());
  for (std::size_t i = 0; i < whole->size(); ++i) {
    EXPECT_EQ((*again)[i].manifest, (*whole)[i].manifest);
    EXPECT_FALSE(std::filesystem::exists((*again)[i].folder + "/model.gguf.part"));
  }
  const auto finished = Split(options, {});
  ASSERT_TRUE(finished) << finished.error().message;
  for (const Package& package : *finished) EXPECT_TRUE(package.was_there);
}

TEST(Split, AFolderWithAnotherModelsPackageIsLeftAlone) {
  const Folder folder;
  SplitOptions options;
  options.model = FixturePath("llama");
  options.stages = 2;
  options.out = folder.path();
  ASSERT_TRUE(Split(options, {}));
  const auto before = ReadManifest(folder.path() + "/vocabulary");
  options.model = FixturePath("qwen3");
  const auto refused = Split(options, {});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("another model"), std::string::npos);
  EXPECT_EQ(*ReadManifest(folder.path() + "/vocabulary"), *before);
}

TEST(Split, ASpoiledPackageIsNotLoaded) {
  const Folder folder;
  SplitOptions options;
  options.model = FixturePath("llama");
  options.layers = "1..2";
  options.out = folder.path();
  ASSERT_TRUE(Split(options, {}));
  const std::string stage = folder.path() + "/stage-1..2";
  const auto loads = LoadStage(stage, {.runtime = {.context = 256, .threads = 1}});
  ASSERT_TRUE(loads) << loads.error().message;
  {
    std::fstream file(stage + "/model.gguf", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-64, std::ios::end);
    file.put('x');
  }
  const auto refused = LoadStage(stage, {.runtime = {.context = 256, .threads = 1}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kCorruption);
}

TEST(Split, TheVocabularyAloneSpeaksLikeTheModel) {
  const Folder folder;
  SplitOptions options;
  options.model = model_test::ModelPath("gemma-3-270m-q4_k_m.gguf");
  options.layers = "0..6,6..18";
  options.out = folder.path();
  const auto packages = Split(options, {});
  ASSERT_TRUE(packages) << packages.error().message;
  const std::string folder_name = packages->front().folder;
  for (const std::string& path : {folder.path(), folder_name, folder_name + "/model.gguf"})
    EXPECT_EQ(FindVocabulary(path).value_or("none"), folder_name) << path;
  for (const std::string& path : {(*packages)[1].folder, options.model, std::string("/nowhere")})
    EXPECT_EQ(FindVocabulary(path).error().code, ErrorCode::kNotFound) << path;
  const auto whole = model_test::LoadModel(options.model);
  ASSERT_NE(whole, nullptr);
  const auto loaded = LoadVocabulary(folder_name);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const llama::Model& alone = *loaded->model;
  EXPECT_TRUE(alone.vocabulary_only());
  EXPECT_EQ(alone.architecture(), whole->architecture());
  EXPECT_EQ(alone.tokenizer_digest(), whole->tokenizer_digest());
  EXPECT_EQ(llama_model_n_ctx_train(alone.raw()), llama_model_n_ctx_train(whole->raw()));
  EXPECT_EQ(llama_model_n_embd(alone.raw()), llama_model_n_embd(whole->raw()));
  EXPECT_EQ(loaded->manifest.model.parameters, llama_model_n_params(whole->raw()));
  EXPECT_EQ(llama::VocabularySize(alone), llama::VocabularySize(*whole));
  const std::string text = "The sun rises in the east; 42 <end_of_turn>";
  EXPECT_EQ(*llama::TokensOfText(alone, text), *llama::TokensOfText(*whole, text));

  const auto runtime = llama::MakeRuntime(alone, {.context = 256});
  ASSERT_FALSE(runtime);
  EXPECT_NE(runtime.error().message.find("name its stages"), std::string::npos);
  llama::ModelOptions adapted;
  adapted.path = folder_name + "/model.gguf";
  adapted.vocabulary_only = true;
  adapted.adapters = {{"adapter.gguf", 1.0F}};
  EXPECT_EQ(llama::Model::Load(adapted).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(LoadVocabulary((*packages)[1].folder).error().code, ErrorCode::kInvalidArgument);
}

TEST(Chain, PackagesThatDoNotFitAreTold) {
  const Folder folder;
  SplitOptions options;
  options.out = folder.path() + "/llama";
  options.model = FixturePath("llama");
  options.layers = "0..1,1..2,2..3";
  ASSERT_TRUE(Split(options, {}));
  options.out = folder.path() + "/qwen3";
  options.model = FixturePath("qwen3");
  ASSERT_TRUE(Split(options, {}));
  const std::string llama = folder.path() + "/llama/";
  const auto says = [&](std::vector<std::string> stages, const std::string& words) {
    const auto chain = Chain::Load(llama + "vocabulary", std::move(stages), {.context = 256});
    ASSERT_FALSE(chain);
    EXPECT_EQ(chain.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(chain.error().message.find(words), std::string::npos) << chain.error().message;
  };
  says({llama + "stage-0..1", llama + "stage-2..3"}, "a gap");
  says({llama + "stage-0..1", llama + "stage-0..1", llama + "stage-1..2"}, "an overlap");
  says({llama + "stage-0..1", llama + "stage-1..2"}, "end at layer");
  says({llama + "stage-0..1", folder.path() + "/qwen3/stage-1..2"}, "the vocabulary of");
  says({llama + "vocabulary"}, "where a stage should be");
}

// Cut in two; `tokens` of which the last four are compared.
WireTableOptions WiresOf(const std::string& model, const std::string& folder,
                         std::vector<Token> tokens) {
  SplitOptions options;
  options.model = model;
  options.stages = 2;
  options.out = folder;
  const auto packages = Split(options, {});
  EXPECT_TRUE(packages) << packages.error().message;
  WireTableOptions wires;
  wires.vocabulary = folder + "/vocabulary";
  const auto stages = StagesIn(folder);
  EXPECT_TRUE(stages) << stages.error().message;
  if (stages) wires.stages = *stages;
  wires.tokens = std::move(tokens);
  wires.positions = 4;
  wires.runtime = {.context = 256, .chunk = 16, .threads = 1};
  return wires;
}

std::vector<Token> SomeTokens(Pos count) {
  std::vector<Token> tokens;
  for (Pos i = 0; i < count; ++i) tokens.push_back(static_cast<Token>((i * 37 + 11) % 200));
  return tokens;
}

TEST(Wires, F32ChangesNothingAndTheOthersWhatTheyLose) {
  for (const char* family : {"llama", "qwen3next"}) {  // snapshots: a run must leave nothing behind
    SCOPED_TRACE(family);
    const Folder folder;
    const auto table = MeasureWires(WiresOf(FixturePath(family), folder.path(), SomeTokens(41)));
    ASSERT_TRUE(table) << table.error().message;
    EXPECT_TRUE(table->Passed());
    EXPECT_EQ(table->stages.size(), 2U);
    const std::uint32_t width = table->model.embedding;
    std::vector<std::string> names;
    for (const WireRow& row : table->rows) {
      SCOPED_TRACE(row.wire);
      names.push_back(row.wire);
      EXPECT_EQ(row.refused, "");
      const auto wire = pipeline::ParseWire(row.wire).value_or(pipeline::WireFormat::kF32);
      EXPECT_EQ(row.bytes, pipeline::WireBytes(wire, width));
      EXPECT_EQ(row.exact, row.wire == "f32");
      EXPECT_EQ(row.nmse > 0, row.wire != "f32");
      EXPECT_EQ(row.divergence > 0, row.wire != "f32");
      EXPECT_LT(row.nmse, 0.1);
      EXPECT_LE(row.same_token, table->positions);
    }
    EXPECT_EQ(names, (std::vector<std::string>{"f32", "bf16", "f16", "int8", kOneUlp}));
    EXPECT_EQ(table->rows.front().same_token, table->positions);
  }
}

TEST(Wires, AWireThatCannotCarryARowSaysSo) {
  const Folder folder;
  std::vector<Token> tokens = SomeTokens(12);
  tokens.front() = 2;  // <bos>, whose rows have values beyond f16
  const auto table = MeasureWires(
      WiresOf(model_test::ModelPath("gemma-3-270m-q4_k_m.gguf"), folder.path(), tokens));
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_TRUE(table->Passed());
  for (const WireRow& row : table->rows)
    EXPECT_EQ(row.refused.find("f16 cannot carry") == 0, row.wire == "f16") << row.refused;
}

TEST(Wires, WhatCannotBeMeasuredIsTold) {
  const Folder folder;
  WireTableOptions options = WiresOf(FixturePath("llama"), folder.path(), SomeTokens(12));
  const auto says = [](const WireTableOptions& wires, const std::string& words) {
    const auto table = MeasureWires(wires);
    ASSERT_FALSE(table);
    EXPECT_NE(table.error().message.find(words), std::string::npos) << table.error().message;
  };
  WireTableOptions other = options;
  other.tokens.resize(4);
  says(other, "4 tokens are too few");
  other.tokens.resize(300);
  says(other, "300 tokens in a context of 256");
  options.stages.resize(1);
  says(options, "one stage only");
  EXPECT_EQ(StagesIn(folder.path() + "/nothing").error().code, ErrorCode::kNotFound);
}

class CertifiedStage : public testing::Test {
 protected:
  void Cut(const std::string& family, const std::string& layers) {
    SplitOptions options;
    options.model = FixturePath(family);
    options.layers = layers;
    options.out = folder_.path();
    const auto packages = Split(options, {});
    ASSERT_TRUE(packages) << packages.error().message;
  }
  std::string Package(const std::string& range) const { return folder_.path() + "/stage-" + range; }
  StageCertifyOptions Options(const std::string& range) const {
    StageCertifyOptions options;
    options.package = Package(range);
    options.rounds = 2;
    return options;
  }
  void ExpectCertified(const StageCertifyOptions& options, InputKind input, bool head) {
    const auto certificate = CertifyStage(options);
    ASSERT_TRUE(certificate) << certificate.error().message;
    EXPECT_TRUE(certificate->Passed()) << ToText(*certificate);
    EXPECT_EQ(certificate->input, input);
    std::set<std::string> passed;
    std::set<std::string> untested;
    for (const LaneEvidence& lane : certificate->lanes)
      (lane.verdict == LaneVerdict::kPassed ? passed : untested).insert(lane.name);
    std::set<std::string> expected{"repeat", "state round trip", "restore and suffix",
                                   "continuation"};
    if (head) expected.insert("output head");
    if (options.q8_wire) expected.insert("q8_wire_validation");
    EXPECT_EQ(passed, expected);
    EXPECT_EQ(untested.contains("q8_wire_validation"), !options.q8_wire);
    EXPECT_EQ(certificate->recompute_ms.size(), options.rounds);
    EXPECT_GT(certificate->state_bytes, 0U);
  }

  Folder folder_;
};

TEST_F(CertifiedStage, EachKindOfInputOnDeepSeek3) {
  Cut("deepseek3", "0..1,1..2,2..3,3..4,4..5");
  StageCertifyOptions first = Options("0..1");
  first.vocabulary = folder_.path() + "/vocabulary";
  ExpectCertified(first, InputKind::kTokens, false);
  StageCertifyOptions middle = Options("2..3");
  middle.vocabulary = folder_.path() + "/vocabulary";
  middle.upstream = {Package("0..1"), Package("1..2")};
  ExpectCertified(middle, InputKind::kUpstream, false);
  StageCertifyOptions last = Options("4..5");
  last.q8_wire = true;
  ExpectCertified(last, InputKind::kSynthetic, true);
}

TEST_F(CertifiedStage, WindowsSnapshotsAndInjectedInput) {
  for (const char* family : {"gemma2", "gemma3", "qwen3next", "falcon-h1", "mamba2", "glm4"}) {
    SCOPED_TRACE(family);
    std::filesystem::remove_all(folder_.path());
    Cut(family, "1..2");
    ExpectCertified(Options("1..2"), InputKind::kSynthetic, false);
  }
}

TEST_F(CertifiedStage, TellsWhatIsMissing) {
  Cut("deepseek3", "0..1,1..2,2..3");
  const auto says = [](const StageCertifyOptions& options, const std::string& words) {
    const auto certificate = CertifyStage(options);
    ASSERT_FALSE(certificate);
    EXPECT_NE(certificate.error().message.find(words), std::string::npos)
        << certificate.error().message;
  };
  StageCertifyOptions options = Options("2..3");
  options.vocabulary = folder_.path() + "/vocabulary";
  says(options, "name their packages as upstream");
  options.upstream = {Package("0..1")};
  says(options, "end at layer 1 of 2");
  options.upstream = {Package("0..1"), Package("2..3")};
  says(options, "a gap");
  options = Options("2..3");
  options.prefix = 500;
  says(options, "positions in a context of");
  options.package = folder_.path() + "/vocabulary";
  says(options, "not a stage");
  options.package = folder_.path() + "/nothing";
  says(options, "no stage package");
}

// A node that the graph does not have must not pass for a stage that computes nothing.
TEST_F(CertifiedStage, AnUnknownNodeIsAnError) {
  Cut("gemma2", "1..2");
  auto manifest = ReadManifest(Package("1..2"));
  ASSERT_TRUE(manifest) << manifest.error().message;
  for (Boundary* boundary : {&manifest->input, &manifest->output}) {
    const Boundary before = *boundary;
    boundary->node = "nothing-0";
    ASSERT_TRUE(WriteManifest(Package("1..2"), *manifest));
    const auto certificate = CertifyStage(Options("1..2"));
    ASSERT_FALSE(certificate);
    EXPECT_NE(certificate.error().message.find("'nothing-0' 0 times"), std::string::npos)
        << certificate.error().message;
    *boundary = before;
  }
}

}  // namespace
}  // namespace skippy::stage
