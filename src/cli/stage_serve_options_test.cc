#include "cli/stage_serve_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace skippy::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

StageServeOptions Parse(std::vector<std::string> arguments) {
  const auto parsed = ParseStageServe(std::move(arguments));
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message);
  return parsed ? parsed->options : StageServeOptions{};
}

std::string Complaint(std::vector<std::string> arguments) {
  const auto parsed = ParseStageServe(std::move(arguments));
  return parsed ? "" : parsed.error().message;
}

std::string FileWith(const std::string& name, const std::string& text) {
  std::string path = testing::TempDir() + "stage-serve-" + name;
  std::ofstream(path) << text;
  return path;
}

TEST(StageServeOptions, DefaultsAreSafe) {
  const StageServeOptions options = Parse({"--package", "m/stage-0..10"});
  EXPECT_THAT(options.packages, ElementsAre("m/stage-0..10"));
  EXPECT_EQ(options.listen, "127.0.0.1:7071");
  EXPECT_GE(options.cache_ram_mib, 64U);
  EXPECT_LE(options.cache_ram_mib, 4096U);
  EXPECT_EQ(options.secret, "");
  EXPECT_EQ(options.setup, ModelSetup{});
}

TEST(StageServeOptions, SettingsAreThoseOfServe) {
  const StageServeOptions options =
      Parse({"--package",  "a,b",       "--package", "c", "-c",          "2048", "-np",  "4",
             "-ub",        "128",       "-t",        "3", "-fa",         "off",  "-ctk", "q8_0",
             "--swa-full", "--no-mmap", "-ngl",      "9", "--cache-ram", "0"});
  EXPECT_THAT(options.packages, ElementsAre("a", "b", "c"));
  EXPECT_EQ(options.setup.runtime.context, 2048U);
  EXPECT_EQ(options.setup.runtime.lanes, 4U);
  EXPECT_EQ(options.setup.runtime.chunk, 128U);
  EXPECT_EQ(options.setup.runtime.threads, 3U);
  EXPECT_FALSE(options.setup.runtime.flash_attention);
  EXPECT_EQ(options.setup.runtime.type_k, "q8_0");
  EXPECT_TRUE(options.setup.runtime.swa_full);
  EXPECT_FALSE(options.setup.use_mmap);
  EXPECT_EQ(options.setup.gpu_layers, 9);
  EXPECT_EQ(options.cache_ram_mib, 0U);
}

TEST(StageServeOptions, TheSecretIsTheFirstLineOfItsFile) {
  EXPECT_EQ(
      Parse({"--package", "a", "--secret-file", FileWith("good", "open-sesame \r\nmore\n")}).secret,
      "open-sesame");
  for (const char* empty : {"", "\n", "  \nx"})
    EXPECT_THAT(Complaint({"--package", "a", "--secret-file", FileWith("empty", empty)}),
                HasSubstr("is empty"));
  EXPECT_THAT(Complaint({"--package", "a", "--secret-file", "/does/not/exist"}),
              HasSubstr("--secret-file: cannot read"));
}

TEST(StageServeOptions, BadUsageIsRefusedWithWords) {
  EXPECT_THAT(Complaint({}), HasSubstr("--package is required"));
  EXPECT_THAT(Complaint({"--package", "a", "--tls-key", "k"}), HasSubstr("go together"));
  EXPECT_THAT(Complaint({"--package", "a", "--port", "1"}), HasSubstr("unknown flag --port"));
  EXPECT_THAT(Complaint({"--package", "a", "--lanes", "0"}), HasSubstr("--lanes"));
}

TEST(StageServeOptions, HelpTellsTheFlags) {
  const auto parsed = ParseStageServe({"-h"});
  ASSERT_TRUE(parsed);
  ASSERT_TRUE(parsed->help);
  EXPECT_THAT(*parsed->help, HasSubstr("--listen"));
}

}  // namespace
}  // namespace skippy::cli
