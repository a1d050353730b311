// The family files: those in this program are sound, and a bad one is an error that says where.
#include "families/family.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

namespace skippy::families {
namespace {

constexpr std::string_view kGood = R"(
name = "good"
title = "Good"
architectures = ["good"]
memory = "rows"
granularity = "any token"
policy = "resident_kv"
[values]
all_layers = { key = "block_count" }
[bytes]
token = "key_bytes"
[certificate]
basis = "synthetic"
fixtures = ["good"]
)";

std::string With(std::string_view old, std::string_view replacement) {
  std::string text(kGood);
  text.replace(text.find(old), old.size(), replacement);
  return text;
}

std::string Refusal(const std::string& text) {
  const std::array files{SourceFile{"good.toml", text}};
  const auto families = ParseFamilies(files);
  return families ? "" : families.error().message;
}

TEST(FamilyFilesTest, AllOfThemAreSound) {
  const auto& families = EmbeddedFamilies();
  ASSERT_TRUE(families) << families.error().message;
  std::set<std::string> names;
  for (const Family& family : *families) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_NE(family.policy, PayloadPolicy::kFullState) << family.name;
  }
  // The list that was promised.
  for (const char* name :
       {"llama",      "qwen3",      "qwen3moe",   "qwen3next",     "qwen35",        "falcon-h1",
        "deepseek2",  "deepseek3",  "deepseek32", "glm4",          "glm-4.7-flash", "glm-dsa",
        "gemma2",     "gemma3",     "gemma4",     "olmo",          "olmo2",         "olmo3",
        "minimax-m1", "minimax-m2", "minimax-m3", "gpt-oss",       "mamba",         "mamba2",
        "rwkv6",      "rwkv7",      "lfm2",       "granitehybrid", "jamba",         "nemotron-h",
        "kimi-linear"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(FamilyFilesTest, TheirWordsSayWhatTheirFormulasSay) {
  const auto& families = EmbeddedFamilies();
  ASSERT_TRUE(families);
  for (const Family& family : *families) {
    if (family.policy == PayloadPolicy::kOff) continue;
    EXPECT_EQ(family.granularity == "where a snapshot was taken",
              family.policy == PayloadPolicy::kKvRecurrent)
        << family.name;
    if (family.policy == PayloadPolicy::kResidentKv) {
      EXPECT_EQ(family.granularity, family.bytes.window_token.empty()
                                        ? "any token"
                                        : "any token whose last window is stored")
          << family.name;
    }
    if (family.policy == PayloadPolicy::kKvRecurrent) {
      EXPECT_FALSE(family.bytes.snapshot.empty()) << family.name;
    }
  }
}

TEST(FamilyFilesTest, AGoodFileIsRead) {
  const std::array files{SourceFile{"good.toml", kGood}};
  const auto families = ParseFamilies(files);
  ASSERT_TRUE(families) << families.error().message;
  ASSERT_EQ(families->size(), 1U);
  EXPECT_EQ(families->front().certificate.basis, Basis::kSynthetic);
  EXPECT_EQ(families->front().bytes.token, "key_bytes");
}

TEST(FamilyFilesTest, WholeStatesAreNoFamilysPolicy) {
  EXPECT_NE(Refusal(With("resident_kv", "full_state")).find("certification"), std::string::npos);
  EXPECT_NE(Refusal(With("resident_kv", "everything")).find("'everything'"), std::string::npos);
}

TEST(FamilyFilesTest, ABadFileIsAnErrorThatSaysWhere) {
  const auto refused = [](std::string_view old, std::string_view replacement,
                          std::string_view says) {
    const std::string message = Refusal(With(old, replacement));
    EXPECT_NE(message.find("families/good.toml"), std::string::npos) << replacement;
    EXPECT_NE(message.find(says), std::string::npos) << replacement << ": " << message;
  };
  refused("title = \"Good\"", "title = ", "line 3");
  refused("title = \"Good\"", "title = 3", "'title' must be a text");
  refused("title = \"Good\"", "titel = \"Good\"", "'titel' means nothing here");
  refused("name = \"good\"", "name = \"better\"", "is not the file's");
  refused("[\"good\"]", "[]", "at least one");
  refused("[\"good\"]", "\"good\"", "list of texts");
  refused("token = \"key_bytes\"", "token = \"keys\"", "nothing is called 'keys'");
  refused("token = \"key_bytes\"", "", "at least one formula");
  refused("token = \"key_bytes\"", "window_token = \"1\"", "go together");
  refused("{ key = \"block_count\" }", "{ kee = \"block_count\" }", "'kee'");
  refused("{ key = \"block_count\" }", "{ otherwise = \"1\" }", "names no key");
  refused("{ key = \"block_count\" }", "{ key = \"a\", first = \"b\" }", "two keys");
  refused("{ key = \"block_count\" }", "4", "formula or name a key");
  refused("all_layers = {", "other = {", "nothing is called 'all_layers'");
  refused("basis = \"synthetic\"", "basis = \"hope\"", "'hope'");
  refused("fixtures = [\"good\"]", "", "synthetic its fixtures");
  refused("policy = \"resident_kv\"", "policy = \"off\"", "a reason belongs to policy off");
  refused("policy = \"resident_kv\"", "policy = \"off\"\nreason = \"x\"", "has none");
  refused("[bytes]", "[mla]\nlatent = \"1\"\n[bytes]", "both latent and expanded");
  refused("[bytes]", "[bytes.more]\n[bytes]", "bytes: 'more'");
}

TEST(FamilyFilesTest, TwoOfOneNameAreRefused) {
  const std::array files{SourceFile{"good.toml", kGood}, SourceFile{"good.toml", kGood}};
  EXPECT_FALSE(ParseFamilies(files));
}

}  // namespace
}  // namespace skippy::families
