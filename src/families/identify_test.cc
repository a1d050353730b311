// Recognition and expectation, on the metadata of published models.
#include "families/identify.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace skippy::families {
namespace {

std::span<const Family> All() {
  const auto& families = EmbeddedFamilies();
  EXPECT_TRUE(families) << families.error().message;
  return families ? std::span<const Family>(*families) : std::span<const Family>();
}

std::string FamilyOf(const ModelFacts& facts) {
  const Match match = Identify(All(), facts);
  return match.family == nullptr ? "unknown" : match.family->name;
}

Expected ExpectOf(const ModelFacts& facts, KvTypes types = {}) {
  const Match match = Identify(All(), facts);
  EXPECT_NE(match.family, nullptr) << match.why;
  if (match.family == nullptr) return {};
  auto expected = Expect(*match.family, facts, types);
  EXPECT_TRUE(expected) << expected.error().message;
  return expected ? *expected : Expected{};
}

ModelFacts Facts(const std::string& architecture, double layers, double embedding, double heads,
                 double kv_heads) {
  ModelFacts facts;
  facts.architecture = architecture;
  facts.Set("block_count", layers);
  facts.Set("context_length", 131072);
  facts.Set("embedding_length", embedding);
  facts.Set("attention.head_count", heads);
  facts.Set("attention.head_count_kv", kv_heads);
  return facts;
}

// DeepSeek-V3 as converted today.
ModelFacts DeepseekV3() {
  ModelFacts facts = Facts("deepseek2", 61, 7168, 128, 1);
  facts.vocabulary = 129280;
  facts.Set("expert_gating_func", 2);
  facts.Set("leading_dense_block_count", 3);
  facts.Set("attention.kv_lora_rank", 512);
  facts.Set("attention.key_length", 576);
  facts.Set("attention.value_length", 512);
  facts.Set("attention.key_length_mla", 192);
  facts.Set("attention.value_length_mla", 128);
  facts.Set("rope.dimension_count", 64);
  facts.tensors = {"blk.0.attn_k_b.weight", "blk.0.attn_v_b.weight"};
  return facts;
}

// The same weights as the first converters stored them.
ModelFacts OldDeepseekV3() {
  ModelFacts facts = DeepseekV3();
  facts.Set("attention.head_count_kv", 128);
  facts.Set("attention.key_length", 192);
  facts.Set("attention.value_length", 128);
  facts.numbers.erase("deepseek2.attention.key_length_mla");
  facts.numbers.erase("deepseek2.attention.value_length_mla");
  facts.tensors = {"blk.0.attn_kv_b.weight"};
  return facts;
}

TEST(IdentifyTest, DeepseeksArchitectureHasThreeFamilies) {
  ModelFacts facts = DeepseekV3();
  EXPECT_EQ(FamilyOf(facts), "deepseek3");
  EXPECT_NE(Identify(All(), facts).why.find("sigmoid"), std::string::npos);
  facts.Set("expert_gating_func", 1);
  EXPECT_EQ(FamilyOf(facts), "deepseek2");
  facts.numbers.erase("deepseek2.expert_gating_func");  // V2 files of the first days
  EXPECT_EQ(FamilyOf(facts), "deepseek2");

  ModelFacts flash = DeepseekV3();
  flash.Set("attention.key_length_mla", 256);
  flash.Set("attention.value_length_mla", 256);
  EXPECT_EQ(FamilyOf(flash), "glm-4.7-flash");
  ModelFacts by_vocabulary = DeepseekV3();
  by_vocabulary.vocabulary = 154880;
  EXPECT_EQ(FamilyOf(by_vocabulary), "glm-4.7-flash");
}

TEST(IdentifyTest, OlmoThreeIsOlmoTwoWithAWindow) {
  ModelFacts facts = Facts("olmo2", 32, 4096, 32, 32);
  EXPECT_EQ(FamilyOf(facts), "olmo2");
  EXPECT_EQ(ExpectOf(facts).shape.kv_row_bytes, 32U * 2 * 4096 * 2);
  facts.Set("attention.sliding_window", 4096);
  EXPECT_EQ(FamilyOf(facts), "olmo3");
  const Expected expected = ExpectOf(facts);
  EXPECT_EQ(expected.shape.kv_row_bytes, 8U * 2 * 4096 * 2);
  EXPECT_EQ(expected.shape.window_row_bytes, 24U * 2 * 4096 * 2);
  EXPECT_EQ(expected.shape.window_tokens, 4095U);
}

TEST(IdentifyTest, NoFilesConditionsOverlap) {
  // Whatever the file says, at most one family of an architecture fits: names must not depend on
  // order.
  for (const double gating : {0.0, 1.0, 2.0, 3.0}) {
    for (const std::uint64_t vocabulary : {std::uint64_t{129280}, std::uint64_t{154880}}) {
      for (const double value : {0.0, 128.0, 256.0}) {
        for (const double window : {0.0, 512.0}) {
          ModelFacts facts = DeepseekV3();
          facts.vocabulary = vocabulary;
          facts.Set("expert_gating_func", gating);
          facts.Set("attention.value_length_mla", value);
          ModelFacts olmo = Facts("olmo2", 4, 64, 2, 2);
          olmo.Set("attention.sliding_window", window);
          for (const ModelFacts& each : {facts, olmo}) {
            int fitting = 0;
            for (const Family& family : All())
              fitting += Identify({&family, 1}, each).family != nullptr ? 1 : 0;
            EXPECT_EQ(fitting, 1) << each.architecture << " " << gating << " " << vocabulary;
          }
        }
      }
    }
  }
}

TEST(IdentifyTest, UnknownArchitecturesAreClassifiedByTheirMemory) {
  const ModelFacts facts = Facts("tomorrow", 4, 64, 2, 2);
  MemoryShape shape;
  shape.kv_row_bytes = 1024;
  shape.snapshot_bytes = 4096;
  const Verdict verdict = Confirm(All(), facts, {}, shape, PayloadPolicy::kKvRecurrent);
  EXPECT_EQ(verdict.family, "unknown");
  EXPECT_EQ(verdict.granularity, "where a snapshot was taken");
  EXPECT_FALSE(verdict.Confirmed());
  EXPECT_TRUE(verdict.differences.empty());
  EXPECT_NE(OneLine(verdict).find("tomorrow"), std::string::npos);
  EXPECT_NE(OneLine(verdict).find("by its memory"), std::string::npos);
}

TEST(ExpectTest, LatentStateOfDeepseekV3) {
  const Expected expected = ExpectOf(DeepseekV3());
  EXPECT_EQ(expected.shape.kv_row_bytes, 70272U);
  EXPECT_EQ(expected.policy, PayloadPolicy::kResidentKv);
  ASSERT_TRUE(expected.latent);
  EXPECT_TRUE(expected.latent->latent);
  EXPECT_EQ(expected.latent->latent_bytes, 70272U);
  EXPECT_EQ(expected.latent->expanded_bytes, 61U * 81920);
  EXPECT_NE(expected.latent->evidence.find("attn_k_b"), std::string::npos);
  EXPECT_TRUE(expected.notes.empty());
}

TEST(ExpectTest, ExpandedStateOfOldFiles) {
  const Expected expected = ExpectOf(OldDeepseekV3());
  EXPECT_EQ(expected.shape.kv_row_bytes, 61U * 81920);
  ASSERT_TRUE(expected.latent);
  EXPECT_FALSE(expected.latent->latent);
  EXPECT_EQ(expected.latent->latent_bytes, 70272U);
  EXPECT_EQ(expected.latent->expanded_bytes, 61U * 81920);
  EXPECT_NE(expected.latent->evidence.find("attn_kv_b"), std::string::npos);
}

TEST(ExpectTest, MetadataAndTensorsThatDisagreeAreTold) {
  ModelFacts facts = DeepseekV3();
  facts.tensors = {"blk.0.attn_kv_b.weight"};
  ASSERT_EQ(ExpectOf(facts).notes.size(), 1U);
  EXPECT_NE(ExpectOf(facts).notes.front().find("disagree"), std::string::npos);
}

TEST(ExpectTest, WhatTheRuntimeHoldsDecides) {
  const Expected expected = ExpectOf(DeepseekV3());
  MemoryShape measured = expected.shape;
  measured.logits_bytes = 1;  // not the family's business
  EXPECT_TRUE(Compare(expected, measured, PayloadPolicy::kResidentKv).empty());
  EXPECT_EQ(HeldBy(*expected.latent, measured), LatentHeld::kLatent);

  measured.kv_row_bytes = expected.latent->expanded_bytes;
  const auto differences = Compare(expected, measured, PayloadPolicy::kOff);
  ASSERT_EQ(differences.size(), 3U);
  EXPECT_EQ(differences[0].what, "bytes a token");
  EXPECT_EQ(differences[0].expected, "70272");
  EXPECT_EQ(differences[0].measured, "4997120");
  EXPECT_EQ(differences[1].what, "policy");
  EXPECT_EQ(differences[2].measured, "expanded");
  measured.kv_row_bytes = 5;
  EXPECT_EQ(HeldBy(*expected.latent, measured), LatentHeld::kNeither);

  const Verdict verdict = Confirm(All(), DeepseekV3(), {}, measured, PayloadPolicy::kResidentKv);
  EXPECT_FALSE(verdict.Confirmed());
  EXPECT_NE(OneLine(verdict).find("bytes a token 5 (the family's file says 70272)"),
            std::string::npos)
      << OneLine(verdict);
}

TEST(ExpectTest, CompareNamesEachComponent) {
  const Expected expected;
  MemoryShape measured;
  measured.window_row_bytes = 1;
  measured.window_tokens = 2;
  measured.snapshot_bytes = 3;
  std::string names;
  for (const Difference& difference : Compare(expected, measured, PayloadPolicy::kOff))
    names += difference.what + ";";
  EXPECT_EQ(names, "window bytes a token;window tokens;bytes a snapshot;");
}

// MiniMax: lightning layers keep a recurrent state. M2 has none left, so its component is zero
// bytes.
TEST(ExpectTest, ARecurrentComponentOfZeroBytesIsNone) {
  ModelFacts facts = Facts("minimax-m2", 62, 3072, 48, 8);
  facts.Set("attention.key_length", 128);
  facts.Set("attention.value_length", 128);
  const Expected plain = ExpectOf(facts);
  EXPECT_EQ(plain.policy, PayloadPolicy::kResidentKv);
  EXPECT_EQ(plain.shape.snapshot_bytes, 0U);
  EXPECT_EQ(plain.shape.kv_row_bytes, 62U * 8 * 256 * 2);
  EXPECT_TRUE(plain.notes.empty());

  std::vector<double> lightning(62, 0);
  lightning[0] = lightning[1] = 1;
  facts.SetLayers("attention.recurrent_layers", lightning);
  const Expected recurrent = ExpectOf(facts);
  EXPECT_EQ(FamilyOf(facts), "minimax-m2");
  EXPECT_EQ(recurrent.policy, PayloadPolicy::kKvRecurrent);
  EXPECT_EQ(recurrent.shape.snapshot_bytes, 2U * 48 * 128 * 128 * 4);
  EXPECT_EQ(recurrent.shape.kv_row_bytes, 60U * 8 * 256 * 2);
  ASSERT_EQ(recurrent.notes.size(), 1U);
  EXPECT_NE(recurrent.notes.front().find("kv_recurrent"), std::string::npos);
}

TEST(ExpectTest, AHybridFileWithoutRecurrentLayersIsResident) {
  ModelFacts facts = Facts("minimax-01", 80, 6144, 64, 8);
  facts.Set("attention.key_length", 128);
  facts.Set("attention.value_length", 128);
  const Expected usual = ExpectOf(facts);
  EXPECT_EQ(usual.policy, PayloadPolicy::kKvRecurrent);
  EXPECT_EQ(usual.shape.snapshot_bytes, 70U * 64 * 128 * 128 * 4);
  EXPECT_EQ(usual.shape.kv_row_bytes, 10U * 8 * 256 * 2);
  facts.SetLayers("attention.recurrent_layers", std::vector<double>(80, 0));
  const Expected none = ExpectOf(facts);
  EXPECT_EQ(none.policy, PayloadPolicy::kResidentKv);
  EXPECT_EQ(none.shape.snapshot_bytes, 0U);
  ASSERT_EQ(none.notes.size(), 1U);
  EXPECT_NE(none.notes.front().find("no recurrent state"), std::string::npos);
}

TEST(ExpectTest, QwenNextEighty) {
  ModelFacts facts = Facts("qwen3next", 48, 2048, 16, 2);
  facts.Set("attention.key_length", 256);
  facts.Set("attention.value_length", 256);
  facts.Set("ssm.conv_kernel", 4);
  facts.Set("ssm.inner_size", 4096);
  facts.Set("ssm.state_size", 128);
  facts.Set("ssm.group_count", 16);
  const Expected expected = ExpectOf(facts);
  EXPECT_EQ(expected.policy, PayloadPolicy::kKvRecurrent);
  EXPECT_EQ(expected.shape.kv_row_bytes, 12U * 2 * 512 * 2);
  EXPECT_EQ(expected.shape.snapshot_bytes, 36U * 2195456);
  // A draft head behind the model keeps nothing of a prompt.
  facts.Set("block_count", 49);
  facts.Set("nextn_predict_layers", 1);
  EXPECT_EQ(ExpectOf(facts).shape, expected.shape);
}

TEST(ExpectTest, GemmaFourSharesKeysAndValues) {
  ModelFacts facts = Facts("gemma4", 6, 2048, 8, 1);
  facts.SetLayers("attention.head_count_kv", {2, 1, 2, 1, 2, 1});
  facts.SetLayers("attention.sliding_window_pattern", {1, 0, 1, 0, 1, 0});
  facts.Set("attention.sliding_window", 512);
  facts.Set("attention.key_length", 512);
  facts.Set("attention.value_length", 512);
  facts.Set("attention.key_length_swa", 256);
  facts.Set("attention.value_length_swa", 256);
  facts.Set("attention.shared_kv_layers", 3);
  const Expected expected = ExpectOf(facts);
  EXPECT_EQ(expected.shape.kv_row_bytes, 1024U * 2);             // layer 1
  EXPECT_EQ(expected.shape.window_row_bytes, 2U * 2 * 512 * 2);  // layers 0 and 2
  EXPECT_EQ(expected.shape.window_tokens, 511U);
}

TEST(ExpectTest, CacheTypesCountByTheirBlocks) {
  ModelFacts facts = Facts("llama", 32, 4096, 32, 8);
  EXPECT_EQ(ExpectOf(facts).shape.kv_row_bytes, 131072U);
  const KvTypes types{*ElementBytes("q8_0"), *ElementBytes("q4_0")};
  EXPECT_EQ(ExpectOf(facts, types).shape.kv_row_bytes, 32U * 1024 * (34 + 18) / 32);
}

TEST(ExpectTest, AFamilyThatIsOffSaysWhy) {
  const Expected expected = ExpectOf(Facts("deepseek4", 61, 7168, 128, 1));
  EXPECT_EQ(expected.policy, PayloadPolicy::kOff);
  EXPECT_NE(expected.reason.find("exported exactly"), std::string::npos);
  EXPECT_TRUE(Compare(expected, MemoryShape{.logits_bytes = 4}, PayloadPolicy::kOff).empty());
}

TEST(ExpectTest, AFileThatLacksAKeyIsAnErrorThatNamesIt) {
  ModelFacts facts = Facts("lfm2", 16, 1024, 16, 8);
  const Match match = Identify(All(), facts);
  ASSERT_NE(match.family, nullptr);
  const auto expected = Expect(*match.family, facts, {});
  ASSERT_FALSE(expected);
  EXPECT_NE(expected.error().message.find("lfm2.shortconv.l_cache"), std::string::npos);
  const Verdict verdict = Confirm(All(), facts, {}, {}, PayloadPolicy::kKvRecurrent);
  EXPECT_FALSE(verdict.Confirmed());
  EXPECT_NE(OneLine(verdict).find("lfm2.shortconv.l_cache"), std::string::npos);
}

TEST(ExpectTest, EveryFamilyCountsOrdinaryMetadata) {
  // No family's formulas trip over a file of its architecture with all the usual keys.
  for (const Family& family : All()) {
    for (const std::string& architecture : family.architectures) {
      ModelFacts facts = Facts(architecture, 8, 1024, 16, 4);
      for (const char* key :
           {"ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.group_count",
            "kda.head_dim", "shortconv.l_cache", "wkv.head_size", "attention.kv_lora_rank",
            "attention.sliding_window", "attention.indexer.key_length"})
        facts.Set(key, 4);
      facts.SetLayers("attention.sliding_window_pattern", {1, 1, 1, 0, 1, 1, 1, 0});
      const auto expected = Expect(family, facts, {});
      ASSERT_TRUE(expected) << family.name << ": " << expected.error().message;
      EXPECT_EQ(expected->policy == PayloadPolicy::kOff, family.policy == PayloadPolicy::kOff);
    }
  }
}

}  // namespace
}  // namespace skippy::families
