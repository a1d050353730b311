// The family files against real llama.cpp: for every fixture and the real models, recognition, and
// bytes by formula equal bytes measured.
#include <ggml.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <ostream>
#include <set>

#include "families/identify.h"
#include "fixtures/fixtures.h"
#include "llama/model_facts.h"
#include "model/gguf_builder.h"
#include "model/harness.h"
#include "model/restore_cases.h"

namespace skippy::model_test {
namespace {

using families::Family;

std::span<const Family> All() {
  const auto& families = families::EmbeddedFamilies();
  EXPECT_TRUE(families) << families.error().message;
  return families ? std::span<const Family>(*families) : std::span<const Family>();
}

struct Case {
  std::string family;
  std::string file;  // full path

  friend void PrintTo(const Case& given, std::ostream* out) { *out << given.file; }
};

std::string FixturePath(const std::string& fixture) {
  return std::string(SKIPPY_FIXTURE_DIR) + "/" + fixture + "-tiny.gguf";
}

std::vector<Case> FixtureCases() {
  std::vector<Case> cases;
  for (const Family& family : All())
    for (const std::string& fixture : family.certificate.fixtures)
      cases.push_back({family.name, FixturePath(fixture)});
  return cases;
}

// The runtime's shape and policy equal the formulas', under the given cache types.
void ExpectEqual(const Case& given, const llama::Model& model, const RunSetup& setup) {
  const auto facts = llama::ReadModelFacts(given.file);
  ASSERT_TRUE(facts) << facts.error().message;
  const families::Match match = families::Identify(All(), *facts);
  ASSERT_NE(match.family, nullptr) << match.why;
  EXPECT_EQ(match.family->name, given.family) << match.why;

  const auto runtime = NewRuntime(model, setup);
  ASSERT_NE(runtime, nullptr);
  const families::KvTypes types{families::ElementBytes(setup.type_k).value(),
                                families::ElementBytes(setup.type_v).value()};
  const auto expected = families::Expect(*match.family, *facts, types);
  ASSERT_TRUE(expected) << expected.error().message;
  MemoryShape measured = runtime->info().shape;
  measured.logits_bytes = 0;
  EXPECT_EQ(expected->shape.kv_row_bytes, measured.kv_row_bytes);
  EXPECT_EQ(expected->shape.window_row_bytes, measured.window_row_bytes);
  EXPECT_EQ(expected->shape.window_tokens, measured.window_tokens);
  EXPECT_EQ(expected->shape.snapshot_bytes, measured.snapshot_bytes);
  EXPECT_EQ(expected->policy, runtime->info().policy);
  EXPECT_EQ(match.family->policy, runtime->info().policy) << "what the family's file says of all";
  EXPECT_NE(runtime->info().policy, PayloadPolicy::kFullState);
  for (const families::Difference& difference :
       families::Compare(*expected, measured, runtime->info().policy))
    ADD_FAILURE() << difference.what << ": " << difference.expected << ", measured "
                  << difference.measured;
  if (expected->latent) {
    EXPECT_EQ(families::HeldBy(*expected->latent, measured), expected->latent->latent
                                                                 ? families::LatentHeld::kLatent
                                                                 : families::LatentHeld::kExpanded);
  }
}

class FixtureFamilyTest : public ::testing::TestWithParam<Case> {};

TEST_P(FixtureFamilyTest, TheRuntimeHoldsWhatTheFamilysFileSays) {
  const auto model = LoadModel(GetParam().file);
  ASSERT_NE(model, nullptr);
  ExpectEqual(GetParam(), *model, {});
  // Keys and values of different sizes: a formula that mixes them up is found. Latent state has
  // keys only, and llama.cpp wants one type for both then.
  const auto facts = llama::ReadModelFacts(GetParam().file);
  const bool latent = facts->numbers.contains(facts->architecture + ".attention.key_length_mla");
  ExpectEqual(GetParam(), *model, {.lanes = 1, .type_k = "f32", .type_v = latent ? "f32" : "bf16"});
  ExpectEqual(GetParam(), *model, {.lanes = 1, .flash_attention = false});
  ExpectEqual(GetParam(), *model, {.lanes = 1, .swa_full = true});
}

TEST_P(FixtureFamilyTest, APageBehindAnotherPrefixIsAnotherPage) {
  const auto model = LoadModel(GetParam().file);
  ASSERT_NE(model, nullptr);
  for (const std::string& problem : PageBehindAnotherPrefixDiffers(*model, {}))
    ADD_FAILURE() << problem;
}

std::string CaseName(const ::testing::TestParamInfo<Case>& given) {
  std::string name = given.param.file.substr(given.param.file.rfind('/') + 1);
  name = name.substr(0, name.rfind("-tiny"));
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Fixture, FixtureFamilyTest, ::testing::ValuesIn(FixtureCases()), CaseName);

TEST(FixtureTest, EveryFixtureBelongsToAFamilyAndEveryFamilyNamesOnesThatExist) {
  std::set<std::string> claimed;
  for (const Family& family : All())
    for (const std::string& fixture : family.certificate.fixtures)
      EXPECT_TRUE(claimed.insert(fixture).second) << fixture << " is claimed twice";
  const std::vector<std::string> names = fixtures::FamilyNames();
  EXPECT_EQ(claimed, std::set<std::string>(names.begin(), names.end()));
}

TEST(FixtureTest, DeepseekIsLatentOrExpandedAsTheFileSays) {
  const auto state = [](const std::string& fixture) {
    const auto facts = llama::ReadModelFacts(FixturePath(fixture));
    EXPECT_TRUE(facts);
    const families::Match match = families::Identify(All(), *facts);
    return families::Expect(*match.family, *facts, {}).value().latent.value();
  };
  const families::LatentState expanded = state("deepseek2");
  EXPECT_FALSE(expanded.latent);
  EXPECT_NE(expanded.evidence.find("attn_kv_b"), std::string::npos);
  const families::LatentState latent = state("deepseek3");
  EXPECT_TRUE(latent.latent);
  EXPECT_NE(latent.evidence.find("attn_k_b"), std::string::npos);
  // One shape stored both ways.
  EXPECT_EQ(expanded.latent_bytes, latent.latent_bytes);
  EXPECT_EQ(expanded.expanded_bytes, latent.expanded_bytes);
  EXPECT_LT(latent.latent_bytes, latent.expanded_bytes);
}

TEST(RealModelFamilyTest, SmolLm2IsALlama) {
  const Case given{"llama", ModelPath("smollm2-135m-instruct-q4_1.gguf")};
  const auto model = LoadModel(given.file);
  ASSERT_NE(model, nullptr);
  ExpectEqual(given, *model, {});
  ExpectEqual(given, *model, {.lanes = 1, .type_k = "q8_0", .type_v = "q4_0"});
}

TEST(RealModelFamilyTest, Gemma3IsAGemma3) {
  const Case given{"gemma3", ModelPath("gemma-3-270m-q4_k_m.gguf")};
  const auto model = LoadModel(given.file);
  ASSERT_NE(model, nullptr);
  ExpectEqual(given, *model, {});
  ExpectEqual(given, *model, {.lanes = 1, .type_k = "q5_1", .type_v = "q8_0"});
}

TEST(ElementBytesTest, AreThoseOfGgml) {
  for (const ggml_type type :
       {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0,
        GGML_TYPE_Q4_1, GGML_TYPE_IQ4_NL, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1})
    EXPECT_EQ(families::ElementBytes(ggml_type_name(type)).value(),
              static_cast<double>(ggml_type_size(type)) / static_cast<double>(ggml_blck_size(type)))
        << ggml_type_name(type);
}

TEST(ModelFactsTest, WhatIsNoModelIsAClearError) {
  const auto missing = llama::ReadModelFacts("/nowhere/model.gguf");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  const auto folder = llama::ReadModelFacts("/tmp");
  ASSERT_FALSE(folder);
  EXPECT_NE(folder.error().message.find("not a regular file"), std::string::npos);
  const auto text = llama::ReadModelFacts(__FILE__);
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().message.find("not a GGUF"), std::string::npos);
  TempFolder folder_of_adapter;
  WriteLora(FixturePath("llama"), folder_of_adapter.Path("adapter.gguf"), 1);
  const auto adapter = llama::ReadModelFacts(folder_of_adapter.Path("adapter.gguf"));
  ASSERT_FALSE(adapter);
  EXPECT_NE(adapter.error().message.find("is a LoRA adapter"), std::string::npos);
}

TEST(ModelFactsTest, AreWhatTheFileSays) {
  const auto facts = llama::ReadModelFacts(FixturePath("gemma4-e4b"));
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_EQ(facts->architecture, "gemma4");
  EXPECT_EQ(facts->vocabulary, 49152U);
  EXPECT_TRUE(facts->tensors.contains("blk.0.attn_q.weight"));
  const families::Numbers& layers = facts->numbers.at("gemma4.block_count");
  EXPECT_FALSE(layers.array);
  const families::Numbers& pattern = facts->numbers.at("gemma4.attention.sliding_window_pattern");
  EXPECT_TRUE(pattern.array) << "booleans, one a layer";
  EXPECT_EQ(static_cast<double>(pattern.values.size()), layers.values.at(0));
  EXPECT_FALSE(facts->numbers.contains("tokenizer.ggml.token_type")) << "too long to be a layer's";
  EXPECT_EQ(facts->texts.at("general.architecture"), "gemma4");
}

}  // namespace
}  // namespace skippy::model_test
