// Every memory family restores bit for bit: the facts of restore_cases.h over fixture and real
// models.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <ostream>

#include "model/restore_cases.h"

namespace skippy::model_test {
namespace {

struct Family {
  std::string name;  // in test names
  std::string file;  // in the fixture folder
  PayloadPolicy policy;
  bool window;

  friend void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }
};

std::string TestName(const ::testing::TestParamInfo<Family>& info) { return info.param.name; }

// Loaded once a process: ctest runs a process a case, a developer runs them all.
const llama::Model* SharedModel(const std::string& path) {
  static std::map<std::string, std::unique_ptr<llama::Model>> models;
  auto& model = models[path];
  if (!model) model = LoadModel(path);
  return model.get();
}

void ExpectNone(const Problems& problems) {
  for (const std::string& problem : problems) ADD_FAILURE() << problem;
}

class FamilyTest : public ::testing::TestWithParam<Family> {
 protected:
  void SetUp() override {
    model_ = SharedModel(std::string(SKIPPY_FIXTURE_DIR) + "/" + GetParam().file);
    ASSERT_NE(model_, nullptr);
  }
  // A ring of 256 cells must turn twice; without a window a shorter prompt shows the same.
  CaseSize Size() const {
    if (GetParam().window) return {};
    return {.length = 340, .boundary = 320, .early_boundary = 64, .generated = 4};
  }

  const llama::Model* model_ = nullptr;
};

TEST_P(FamilyTest, ItsShapeIsThatOfTheFamily) {
  const auto runtime = NewRuntime(*model_, {});
  ASSERT_NE(runtime, nullptr);
  EXPECT_EQ(runtime->info().policy, GetParam().policy) << runtime->info().policy_reason;
  EXPECT_EQ(runtime->info().shape.HasWindow(), GetParam().window);
  EXPECT_EQ(runtime->info().shape.HasSnapshot(), GetParam().policy == PayloadPolicy::kKvRecurrent);
}
TEST_P(FamilyTest, RestoredEqualsCold) { ExpectNone(RestoredEqualsCold(*model_, {}, Size())); }
TEST_P(FamilyTest, PartialPageEqualsCut) { ExpectNone(PartialPageEqualsCut(*model_, {}, Size())); }
TEST_P(FamilyTest, CopyEqualsOriginal) { ExpectNone(CopyEqualsOriginal(*model_, {}, Size())); }
TEST_P(FamilyTest, TruncatedEqualsCold) { ExpectNone(TruncatedEqualsCold(*model_, {}, Size())); }
TEST_P(FamilyTest, FailedImportLeavesNoTrace) {
  ExpectNone(FailedImportLeavesNoTrace(*model_, {}, Size()));
}
TEST_P(FamilyTest, OtherLanesChangeNothing) {
  ExpectNone(OtherLanesChangeNothing(*model_, {}, Size()));
}
TEST_P(FamilyTest, DecodedRowsRestore) { ExpectNone(DecodedRowsRestore(*model_, {}, Size())); }
TEST_P(FamilyTest, OneLaneRestores) { ExpectNone(OneLaneRestores(*model_, {}, Size())); }

INSTANTIATE_TEST_SUITE_P(
    Fixture, FamilyTest,
    ::testing::Values(
        Family{"Llama", "llama-tiny.gguf", PayloadPolicy::kResidentKv, false},
        Family{"DeepSeek3", "deepseek3-tiny.gguf", PayloadPolicy::kResidentKv, false},
        Family{"GlmDsa", "glm-dsa-tiny.gguf", PayloadPolicy::kResidentKv, false},
        Family{"Glm47Flash", "glm-4.7-flash-tiny.gguf", PayloadPolicy::kResidentKv, false},
        Family{"MinimaxM3", "minimax-m3-tiny.gguf", PayloadPolicy::kResidentKv, false},
        Family{"Olmo", "olmo-tiny.gguf", PayloadPolicy::kResidentKv, false},
        Family{"Gemma3", "gemma3-tiny.gguf", PayloadPolicy::kResidentKv, true},
        Family{"Gemma4", "gemma4-tiny.gguf", PayloadPolicy::kResidentKv, true},
        Family{"Gemma4E4b", "gemma4-e4b-tiny.gguf", PayloadPolicy::kResidentKv, true},
        Family{"Gemma4A4b", "gemma4-a4b-tiny.gguf", PayloadPolicy::kResidentKv, true},
        Family{"GptOss", "gpt-oss-tiny.gguf", PayloadPolicy::kResidentKv, true},
        Family{"Qwen3Next", "qwen3next-tiny.gguf", PayloadPolicy::kKvRecurrent, false},
        Family{"FalconH1", "falcon-h1-tiny.gguf", PayloadPolicy::kKvRecurrent, false},
        Family{"KimiLinear", "kimi-linear-tiny.gguf", PayloadPolicy::kKvRecurrent, false},
        Family{"MinimaxM1", "minimax-m1-tiny.gguf", PayloadPolicy::kKvRecurrent, false},
        Family{"Rwkv6", "rwkv6-tiny.gguf", PayloadPolicy::kKvRecurrent, false},
        Family{"Rwkv7", "rwkv7-tiny.gguf", PayloadPolicy::kKvRecurrent, false},
        Family{"Mamba2", "mamba2-tiny.gguf", PayloadPolicy::kKvRecurrent, false}),
    TestName);

// Other layouts of the same caches.
class LayoutTest : public ::testing::TestWithParam<Family> {
 protected:
  static void Restores(const RunSetup& setup) {
    const auto* model = SharedModel(std::string(SKIPPY_FIXTURE_DIR) + "/" + GetParam().file);
    ASSERT_NE(model, nullptr);
    CaseSize size;
    size.generated = 3;
    if (!GetParam().window)
      size = {.length = 340, .boundary = 320, .early_boundary = 0, .generated = 3};
    ExpectNone(RestoredEqualsCold(*model, setup, size));
    ExpectNone(TruncatedEqualsCold(*model, setup, size));
  }
};

TEST_P(LayoutTest, WithoutFlashAttentionValuesLieTransposed) {
  Restores({.flash_attention = false});
}
TEST_P(LayoutTest, FullSizeWindowCaches) { Restores({.swa_full = true}); }

INSTANTIATE_TEST_SUITE_P(
    Fixture, LayoutTest,
    ::testing::Values(
        Family{"Llama", "llama-tiny.gguf", PayloadPolicy::kResidentKv, false},
        Family{"MinimaxM3", "minimax-m3-tiny.gguf", PayloadPolicy::kResidentKv, false},
        Family{"Gemma3", "gemma3-tiny.gguf", PayloadPolicy::kResidentKv, true},
        Family{"Gemma4E4b", "gemma4-e4b-tiny.gguf", PayloadPolicy::kResidentKv, true},
        Family{"MinimaxM1", "minimax-m1-tiny.gguf", PayloadPolicy::kKvRecurrent, false}),
    TestName);

TEST(RealModelTest, SmolLm2RestoresBitForBit) {
  const auto* model = SharedModel(ModelPath("smollm2-135m-instruct-q4_1.gguf"));
  ASSERT_NE(model, nullptr);
  const CaseSize size{.length = 160, .boundary = 128, .early_boundary = 0, .generated = 4};
  ExpectNone(RestoredEqualsCold(*model, {.context = 256}, size));
  ExpectNone(DecodedRowsRestore(*model, {.context = 256}, size));
}

TEST(RealModelTest, QuantisedCachesRestoreBitForBit) {
  const auto* model = SharedModel(ModelPath("smollm2-135m-instruct-q4_1.gguf"));
  ASSERT_NE(model, nullptr);
  const CaseSize size{.length = 100, .boundary = 64, .early_boundary = 0, .generated = 3};
  for (const char* type : {"q8_0", "q4_0"})
    ExpectNone(RestoredEqualsCold(*model, {.context = 256, .type_k = type, .type_v = type}, size));
}

// A window of 512 in a ring of 768 cells; the prompt is longer than two windows.
TEST(RealModelTest, Gemma3RestoresBitForBitAfterItsRingHasTurned) {
  const auto* model = SharedModel(ModelPath("gemma-3-270m-q4_k_m.gguf"));
  ASSERT_NE(model, nullptr);
  ExpectNone(
      RestoredEqualsCold(*model, {.context = 1280, .chunk = 256},
                         {.length = 1060, .boundary = 1024, .early_boundary = 0, .generated = 3}));
}

}  // namespace
}  // namespace skippy::model_test
