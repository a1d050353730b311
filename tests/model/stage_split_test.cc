// What `skippy stage split` makes besides the usual: stages checked without the whole model, a
// first stage that takes tokens, a model in several files.
#include <fmt/format.h>
#include <ggml.h>
#include <gguf.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <memory>

#include "families/identify.h"
#include "fixtures/fixtures.h"
#include "llama/gguf_check.h"
#include "model/gguf_builder.h"
#include "model/harness.h"
#include "runtime/compare_floats.h"
#include "stage/chain.h"
#include "stage/load.h"
#include "stage/self_check.h"
#include "stage/split.h"

namespace skippy::stage {
namespace {

using model_test::TempFolder;

std::string FixturePath(const std::string& name) {
  return std::string(SKIPPY_FIXTURE_DIR) + "/" + name + "-tiny.gguf";
}

std::vector<Package> MustSplit(const SplitOptions& options) {
  auto packages = Split(options, {});
  EXPECT_TRUE(packages) << packages.error().message;
  if (!packages) return {};
  return std::move(*packages);
}

// A fixture cut into the folder's "packages", and its source.
struct Cut {
  Cut(const TempFolder& folder, const std::string& family, const std::string& layers,
      FirstStage first = FirstStage::kStub) {
    options.model = FixturePath(family);
    options.layers = layers;
    options.out = folder.Path("packages");
    options.first = first;
    packages = MustSplit(options);
    auto opened = Source::Open(options.model);
    EXPECT_TRUE(opened) << opened.error().message;
    if (opened) source = std::move(*opened);
  }
  // With the vocabulary and so many stages.
  bool Has(std::size_t stages) const { return packages.size() == stages + 1 && source != nullptr; }

  SplitOptions options;
  std::vector<Package> packages;
  std::unique_ptr<Source> source;
};

// Every stage of these packages, the vocabulary's first, held against a hollow model.
void ExpectEachAlone(const std::string& model, const std::vector<Package>& packages) {
  const auto source = Source::Open(model);
  ASSERT_TRUE(source) << source.error().message;
  for (std::size_t i = 1; i < packages.size(); ++i) {
    const std::string& folder = packages[i].folder;
    SCOPED_TRACE(folder);
    const auto result =
        CheckAlone(**source, packages.front().folder, folder, folder + "/check", {}, {});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_TRUE(result->Passed()) << result->equal << " of " << result->compared
                                  << " rows are equal, largest difference "
                                  << result->largest_difference;
    EXPECT_FALSE(std::filesystem::exists(folder + "/check"));
  }
}

class Hollow : public testing::TestWithParam<std::string> {};

TEST_P(Hollow, EachStageAloneGivesWhatItsLayersGiveInTheModel) {
  const TempFolder folder;
  SplitOptions options;
  options.model = FixturePath(GetParam());
  options.out = folder.Path("packages");
  const auto source = Source::Open(options.model);
  ASSERT_TRUE(source) << source.error().message;
  const auto match = families::Identify(*families::EmbeddedFamilies(), (*source)->facts());
  ASSERT_NE(match.family, nullptr);
  if (!match.family->stages.refused.empty()) {
    options.stages = 2;
    EXPECT_EQ(Split(options, {}).error().code, ErrorCode::kUnsupported);
    return;
  }
  const auto begins = BeginsOf(**source, *match.family);
  ASSERT_TRUE(begins) << begins.error().message;
  options.stages = static_cast<std::uint32_t>(std::min<std::size_t>(3, begins->size()));
  ExpectEachAlone(options.model, MustSplit(options));
}

INSTANTIATE_TEST_SUITE_P(Families, Hollow, testing::ValuesIn(fixtures::FamilyNames()),
                         [](const auto& family) {
                           std::string name = family.param;
                           for (char& c : name)
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           return name;
                         });

TEST(HollowModel, TakesLittleRoomAndChecksARealStage) {
  const TempFolder folder;
  SplitOptions options;
  options.model = model_test::ModelPath("gemma-3-270m-q4_k_m.gguf");
  options.layers = "6..12";
  options.out = folder.Path("packages");
  const std::vector<Package> packages = MustSplit(options);
  ASSERT_EQ(packages.size(), 2U);
  ExpectEachAlone(options.model, packages);

  const auto source = Source::Open(options.model);
  ASSERT_TRUE(source) << source.error().message;
  const auto family = FamilyOf(**source);
  ASSERT_TRUE(family) << family.error().message;
  const auto plan = PlanHollow(**source, *family, {6, 12});
  ASSERT_TRUE(plan) << plan.error().message;
  const std::string path = folder.Path("hollow.gguf");
  const auto written = WriteSlice(**source, *plan, path, {});
  ASSERT_TRUE(written) << written.error().message;
  // Weights of twelve other layers are holes in it, and smaller than they were.
  std::uint64_t others = 0;
  for (const auto& [name, tensor] : (*source)->tensors())
    if (name.starts_with("blk.") && tensor.shape.size() > 1) others += tensor.bytes * 2 / 3;
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  constexpr std::uint64_t kMiB = 1U << 20U;
  EXPECT_LT(static_cast<std::uint64_t>(info.st_blocks) * 512,
            (*source)->bytes() - others + 2 * kMiB);
}

// What only prompts longer than the window can show.
TEST(HollowModel, FindsAWindowOfAnotherLength) {
  const TempFolder folder;
  const Cut cut(folder, "gemma3", "1..3");
  ASSERT_TRUE(cut.Has(1));
  const auto& [options, packages, source] = cut;
  const CheckOptions check = CheckOptionsFor(*source);
  EXPECT_EQ(check.prompt, 150U + 64U);
  const auto family = FamilyOf(*source);
  ASSERT_TRUE(family) << family.error().message;
  auto plan = PlanSlice(*source, *family, {1, 3});
  ASSERT_TRUE(plan) << plan.error().message;
  plan->set["gemma3.attention.sliding_window"] = 160U;
  const std::string& stage = packages[1].folder;
  const auto written = WriteSlice(*source, *plan, stage + "/" + kSliceName, {});
  ASSERT_TRUE(written) << written.error().message;
  Manifest manifest = packages[1].manifest;
  manifest.bytes = written->bytes;
  manifest.digest = written->digest;
  ASSERT_TRUE(WriteManifest(stage, manifest));
  const auto result =
      CheckAlone(*source, packages[0].folder, stage, folder.Path("check"), check, {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_FALSE(result->Passed());
  EXPECT_GE(result->first_difference, 64U);
}

TEST(HollowModel, FindsAStageOfOtherWeights) {
  const TempFolder folder;
  const auto tokenizer = fixtures::Tokenizer::FromGguf(fixtures::DefaultTokenizerPath());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  std::vector<std::vector<Package>> cut;
  for (const std::uint64_t seed : {1U, 2U}) {
    SplitOptions options;
    options.out = folder.Path("packages" + std::to_string(seed));
    const auto model = fixtures::WriteFixture({.family = "llama", .seed = seed}, *tokenizer,
                                              folder.Path("model" + std::to_string(seed)));
    ASSERT_TRUE(model) << model.error().message;
    options.model = model->path;
    options.layers = "0..1,1..2,2..3";
    cut.push_back(MustSplit(options));
    ASSERT_EQ(cut.back().size(), 4U);
  }
  const auto source = Source::Open(folder.Path("model1") + "/llama-tiny.gguf");
  ASSERT_TRUE(source) << source.error().message;
  for (std::size_t i = 1; i < 4; ++i) {
    const auto result =
        CheckAlone(**source, cut[0].front().folder, cut[1][i].folder, folder.Path("check"), {}, {});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_FALSE(result->Passed()) << i;
    EXPECT_GT(result->largest_difference, 0);
  }
}

TEST(HollowModel, AnInterruptionLeavesNothing) {
  const TempFolder folder;
  const Cut cut(folder, "deepseek3", "1..2");
  ASSERT_TRUE(cut.Has(1));
  const auto& [options, packages, source] = cut;
  bool passed = false;
  int stops = 0;
  for (; !passed; ++stops) {  // while it is written, and before every step
    int left = stops;
    const auto result =
        CheckAlone(*source, packages[0].folder, packages[1].folder, folder.Path("check"), {},
                   [&](std::uint64_t, std::uint64_t) { return left-- > 0; });
    passed = result.has_value();
    const ErrorCode code = passed ? ErrorCode::kCancelled : result.error().code;
    EXPECT_EQ(code, ErrorCode::kCancelled);
    EXPECT_FALSE(std::filesystem::exists(folder.Path("check")));
  }
  EXPECT_GT(stops, 3 * 19) << "three runs of 19 steps";
}

class RealFirst : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    options_.model = FixturePath(GetParam());
    options_.out = folder_.Path("packages");
    options_.first = FirstStage::kReal;
  }
  const TempFolder folder_;
  SplitOptions options_;
};

TEST_P(RealFirst, StandsForTheVocabularyAndTakesTokensOrRows) {
  const auto source = Source::Open(options_.model);
  ASSERT_TRUE(source) << source.error().message;
  const auto layers = LayersOf(**source);
  ASSERT_TRUE(layers) << layers.error().message;
  options_.layers = "0..2,2.." + std::to_string(*layers);
  const std::vector<Package> packages = MustSplit(options_);
  ASSERT_EQ(packages.size(), 3U);
  const std::string& first = packages[1].folder;
  EXPECT_TRUE(packages[1].manifest.takes_tokens);
  EXPECT_FALSE(packages[2].manifest.takes_tokens);
  EXPECT_EQ(FindVocabulary(first).value_or("none"), first);
  EXPECT_EQ(FindVocabulary(packages[2].folder).error().code, ErrorCode::kNotFound);

  // In the vocabulary's place, and as any first stage.
  const auto equal = CheckStages(options_.model, first, {first, packages[2].folder}, {});
  ASSERT_TRUE(equal) << equal.error().message;
  EXPECT_TRUE(equal->Passed()) << equal->equal << " of " << equal->compared;
  ExpectEachAlone(options_.model, packages);

  const auto words = LoadVocabulary(first);
  ASSERT_TRUE(words) << words.error().message;
  const auto whole = model_test::LoadModel(options_.model);
  ASSERT_NE(whole, nullptr);
  EXPECT_EQ(words->model->tokenizer_digest(), whole->tokenizer_digest());

  const runtime::RuntimeOptions settings{.context = 256, .chunk = 16, .threads = 1};
  const auto by_tokens = LoadStage(first, {.runtime = settings});
  const auto by_rows = LoadStage(first, {.runtime = settings});
  ASSERT_TRUE(by_tokens && by_rows);
  const std::vector<Token> tokens{5, 17, 101, 7, 33, 2, 90};
  const runtime::DecodeItem item{SeqId{0}, 0, tokens, false};
  const Status decoded = by_tokens->runtime.runtime->Decode({&item, 1});
  ASSERT_TRUE(decoded) << decoded.error().message;
  std::vector<float> rows(tokens.size() * words->rows->width());
  ASSERT_TRUE(words->rows->Rows(tokens, rows));
  const runtime::RowsItem step{SeqId{0}, 0, rows, false};
  const Status went = by_rows->runtime.stage->DecodeRows({&step, 1});
  ASSERT_TRUE(went) << went.error().message;
  const auto left = by_tokens->runtime.stage->OutputRows(0);
  ASSERT_EQ(left.size(), rows.size());
  EXPECT_TRUE(runtime::SameBits(left, by_rows->runtime.stage->OutputRows(0)));
}

// Tied and not, scaled embeddings, an input that is injected, a head that the architecture insists
// on, a recurrent kind that needs a dummy.
INSTANTIATE_TEST_SUITE_P(Families, RealFirst,
                         testing::Values("llama", "deepseek3", "gemma3", "gpt-oss", "olmo2",
                                         "minimax-m2", "qwen3next"),
                         [](const auto& family) {
                           std::string name = family.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Its rows are what the coordinator sends where it stands for the vocabulary.
TEST(RealFirstStage, ItsOwnRowsAreChecked) {
  const TempFolder folder;
  const Cut cut(folder, "llama", "0..2,2..4", FirstStage::kReal);
  ASSERT_TRUE(cut.Has(2));
  const auto& [options, packages, source] = cut;
  const std::string& first = packages[1].folder;
  const std::string file = first + "/" + kSliceName;
  {
    const auto slice = Source::Open(file);
    ASSERT_TRUE(slice) << slice.error().message;
    const SourceTensor* rows = (*slice)->Find("token_embd.weight");
    ASSERT_NE(rows, nullptr);
    std::vector<std::byte> bytes(rows->bytes);
    ASSERT_TRUE((*slice)->Read(*rows, 0, bytes));
    for (std::size_t i = 0; i < bytes.size(); i += 2) bytes[i] ^= std::byte{0x55};
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(rows->offset));
    for (const std::byte value : bytes) out.put(static_cast<char>(value));
  }
  Manifest manifest = packages[1].manifest;
  const auto digest = llama::DigestFiles({file});
  ASSERT_TRUE(digest) << digest.error().message;
  manifest.digest = *digest;
  ASSERT_TRUE(WriteManifest(first, manifest));
  const auto together = CheckStages(options.model, first, {first, packages[2].folder}, {});
  ASSERT_TRUE(together) << together.error().message;
  EXPECT_FALSE(together->Passed());
  const auto alone = CheckAlone(*source, first, first, folder.Path("check"), {}, {});
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_FALSE(alone->Passed());
}

TEST(RealFirstStage, IsNotTheStubThatIsThere) {
  const TempFolder folder;
  SplitOptions options;
  options.model = FixturePath("llama");
  options.layers = "0..1";
  options.out = folder.Path("packages");
  MustSplit(options);
  options.first = FirstStage::kReal;
  const auto refused = Split(options, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("without the vocabulary"), std::string::npos);
  // A stub says so itself.
  const auto stub = LoadStage(folder.Path("packages") + "/stage-0..1", {.runtime = {.threads = 1}});
  ASSERT_TRUE(stub) << stub.error().message;
  const Token token = 1;
  const runtime::DecodeItem item{SeqId{0}, 0, {&token, 1}, false};
  EXPECT_EQ(stub->runtime.runtime->Decode({&item, 1}).error().code, ErrorCode::kUnsupported);
}

// As llama-gguf-split does: metadata in the first part, tensors one part behind the other.
std::string WriteParts(const std::string& model, const std::string& stem, std::uint16_t parts) {
  ggml_context* tensors = nullptr;
  gguf_context* whole = gguf_init_from_file(model.c_str(), {.no_alloc = false, .ctx = &tensors});
  EXPECT_NE(whole, nullptr) << model;
  if (whole == nullptr) return {};
  const std::int64_t count = gguf_get_n_tensors(whole);
  std::string first;
  for (std::uint16_t part = 0; part < parts; ++part) {
    gguf_context* out = gguf_init_empty();
    if (part == 0) gguf_set_kv(out, whole);
    gguf_set_val_u16(out, "split.no", part);
    gguf_set_val_u16(out, "split.count", parts);
    gguf_set_val_i32(out, "split.tensors.count", static_cast<std::int32_t>(count));
    for (std::int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i)
      gguf_add_tensor(out, ggml_get_tensor(tensors, gguf_get_tensor_name(whole, i)));
    const std::string path = fmt::format("{}-{:05}-of-{:05}.gguf", stem, part + 1, parts);
    EXPECT_TRUE(gguf_write_to_file(out, path.c_str(), /*only_meta=*/false)) << path;
    if (part == 0) first = path;
    gguf_free(out);
  }
  gguf_free(whole);
  ggml_free(tensors);
  return first;
}

TEST(Split, AModelInSeveralFilesGivesTheSameStages) {
  for (const char* family : {"deepseek3", "qwen3next"}) {
    SCOPED_TRACE(family);
    const TempFolder folder;
    SplitOptions options;
    options.model = FixturePath(family);
    options.stages = 2;
    options.out = folder.Path("whole");
    const std::vector<Package> whole = MustSplit(options);
    options.model = WriteParts(options.model, folder.Path("model"), 3);
    options.out = folder.Path("parts");
    const std::vector<Package> parts = MustSplit(options);
    ASSERT_EQ(parts.size(), whole.size());
    std::vector<std::string> stages;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Manifest& manifest = parts[i].manifest;
      EXPECT_EQ(manifest.digest, whole[i].manifest.digest) << parts[i].folder;
      EXPECT_EQ(manifest.layers, whole[i].manifest.layers);
      EXPECT_NE(manifest.model.digest, whole[i].manifest.model.digest) << "of other files";
      EXPECT_EQ(manifest.model.parameters, whole[i].manifest.model.parameters);
      if (i > 0) stages.push_back(parts[i].folder);
    }
    const auto equal = CheckStages(options.model, parts.front().folder, stages, {});
    ASSERT_TRUE(equal) << equal.error().message;
    EXPECT_TRUE(equal->Passed());
    ExpectEachAlone(options.model, parts);

    const auto part = [&](int number) {
      return folder.Path(fmt::format("model-{:05}-of-00003.gguf", number));
    };
    std::filesystem::rename(part(2), part(4));
    std::filesystem::rename(part(3), part(2));
    std::filesystem::rename(part(4), part(3));
    options.out = folder.Path("swapped");
    const auto swapped = Split(options, {});
    ASSERT_FALSE(swapped);
    EXPECT_NE(swapped.error().message.find("is not part 2 of 3"), std::string::npos)
        << swapped.error().message;
    EXPECT_FALSE(std::filesystem::exists(options.out));

    std::filesystem::remove(part(2));
    options.out = folder.Path("missing");
    const auto missing = Split(options, {});
    ASSERT_FALSE(missing);
    EXPECT_NE(missing.error().message.find("00002-of-00003"), std::string::npos)
        << missing.error().message;
    EXPECT_FALSE(std::filesystem::exists(options.out));
  }
}

}  // namespace
}  // namespace skippy::stage
