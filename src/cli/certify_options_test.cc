#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/certify_command.h"
#include "cli/serve_options.h"

namespace skippy::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CertifyOptions Parsed(std::vector<std::string> arguments) {
  const auto parsed = ParseCertify(std::move(arguments));
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message);
  return parsed ? parsed->options : CertifyOptions{};
}

void ExpectRefused(std::vector<std::string> arguments, const char* words) {
  const auto parsed = ParseCertify(std::move(arguments));
  ASSERT_FALSE(parsed) << words;
  EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(parsed.error().message, HasSubstr(words));
}

TEST(CertifyOptionsTest, DefaultsAreThoseOfServeAndBothSettings) {
  const CertifyOptions options = Parsed({"--model", "m.gguf"});
  EXPECT_EQ(options.model.file, "m.gguf");
  EXPECT_THAT(options.exactness, ElementsAre(Exactness::kBit, Exactness::kToken));
  EXPECT_EQ(options.model.runtime.lanes, 1U);
  EXPECT_EQ(options.model.runtime.context, 0U);
  EXPECT_EQ(options.model.runtime.threads, 0U);
  EXPECT_TRUE(options.model.runtime.flash_attention);
  EXPECT_FALSE(options.quick);
  EXPECT_TRUE(options.variations);
  EXPECT_THAT(options.folder, HasSubstr("skippy/certificates"));
}

// A certificate is bound to its settings: serve would not find one that was made under others.
TEST(CertifyOptionsTest, TheSameFlagsMeanTheSameRuntimeAsInServe) {
  const std::vector<std::vector<std::string>> all = {
      {"-m", "m.gguf"},
      {"-m", "m.gguf", "-b", "128", "-t", "-1", "-tb", "3"},
      {"-m", "m.gguf", "-b", "64", "-ub", "32", "-ngl", "all", "-np", "4", "-c", "512"},
      {"-m", "m.gguf", "-fa", "off", "-ctk", "bf16", "-ctv", "f32", "--swa-full"}};
  for (const std::vector<std::string>& flags : all) {
    const auto served = ParseServe(flags);
    ASSERT_TRUE(served) << served.error().message;
    EXPECT_EQ(Parsed(flags).model, served->options.model);
  }
}

TEST(CertifyOptionsTest, ShortFormsAreLlamaServers) {
  const CertifyOptions options =
      Parsed({"-m",     "m.gguf", "-c",     "2048", "-np",         "3",    "-ub",
              "128",    "-t",     "2",      "-ctk", "q8_0",        "-ctv", "q4_0",
              "-fa",    "off",    "-ngl",   "0",    "--exactness", "bit",  "--quick",
              "--seed", "9",      "--json", "-",    "--out",       "here", "--no-variations"});
  EXPECT_EQ(options.model.runtime.context, 2048U);
  EXPECT_EQ(options.model.runtime.lanes, 3U);
  EXPECT_EQ(options.model.runtime.chunk, 128U);
  EXPECT_EQ(options.model.runtime.threads, 2U);
  EXPECT_EQ(options.model.runtime.type_k, "q8_0");
  EXPECT_EQ(options.model.runtime.type_v, "q4_0");
  EXPECT_FALSE(options.model.runtime.flash_attention);
  EXPECT_EQ(options.model.gpu_layers, 0);
  EXPECT_THAT(options.exactness, ElementsAre(Exactness::kBit));
  EXPECT_TRUE(options.quick);
  EXPECT_EQ(options.seed, 9U);
  EXPECT_EQ(options.json, "-");
  EXPECT_EQ(options.folder, "here");
  EXPECT_FALSE(options.variations);
}

TEST(CertifyOptionsTest, BadUsageIsRefusedWithWords) {
  ExpectRefused({}, "--model is required");
  ExpectRefused({"--model", "m", "--exactnes", "bit"}, "did you mean --exactness");
  ExpectRefused({"--model", "m", "--exactness", "close"}, "close");
  ExpectRefused({"--model", "m", "--lanes", "0"}, "0");
  ExpectRefused({"--model", "m", "--threads", "x"}, "x");
  ExpectRefused({"m.gguf"}, "the model is given with --model");
  ExpectRefused({"--model", "m", "--json", "-", "--markdown", "-"}, "exclude each other");
}

TEST(CertifyOptionsTest, HelpIsNoError) {
  const auto parsed = ParseCertify({"--help"});
  ASSERT_TRUE(parsed);
  ASSERT_TRUE(parsed->help);
  EXPECT_THAT(*parsed->help, HasSubstr("--exactness"));
}

}  // namespace
}  // namespace skippy::cli
