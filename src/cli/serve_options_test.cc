#include "cli/serve_options.h"

#include <gtest/gtest.h>

#include <fstream>

namespace skippy::cli {
namespace {

ServeOptions Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--model", "m.gguf"});
  const auto parsed = ParseServe(std::move(arguments));
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message);
  return parsed ? parsed->options : ServeOptions{};
}

std::string Complaint(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--model", "m.gguf"});
  const auto parsed = ParseServe(std::move(arguments));
  return parsed ? "" : parsed.error().message;
}

TEST(ServeOptions, LlamaServersSpellingsMeanTheSame) {
  const ServeOptions options = Parse({"-c",   "2048", "-np", "4",   "-ngl", "99", "-t",     "3",
                                      "-tb",  "5",    "-ub", "128", "-fa",  "on", "-ctk",   "q8_0",
                                      "-ctv", "q8_0", "-n",  "50",  "-s",   "7",  "--temp", "0.5"});
  EXPECT_EQ(options.model.file, "m.gguf");
  EXPECT_EQ(options.model.runtime.context, 2048U);
  EXPECT_EQ(options.model.runtime.lanes, 4U);
  EXPECT_EQ(options.model.gpu_layers, 99);
  EXPECT_EQ(options.model.runtime.threads, 3U);
  EXPECT_EQ(options.model.runtime.threads_batch, 5U);
  EXPECT_EQ(options.model.runtime.chunk, 128U);
  EXPECT_EQ(options.model.runtime.type_k, "q8_0");
  EXPECT_EQ(options.sampling.n_predict, 50);
  EXPECT_EQ(options.sampling.seed, 7);
  ASSERT_EQ(options.sampling.set.size(), 1U);
  EXPECT_EQ(options.sampling.set[0].first, "temp");
}

TEST(ServeOptions, DefaultsAreSafe) {
  const ServeOptions options = Parse({});
  EXPECT_EQ(options.hosts, std::vector<std::string>{"127.0.0.1"});
  EXPECT_EQ(options.port, 8080);
  EXPECT_TRUE(options.cache);
  EXPECT_GE(options.cache_ram_mib, 64U);
  EXPECT_LE(options.cache_ram_mib, 4096U);
  EXPECT_EQ(options.cors_origins, "localhost");
}

TEST(ServeOptions, UnknownFlagNamesTheNearestKnownOne) {
  EXPECT_NE(Complaint({"--prot", "1"}).find("did you mean --port?"), std::string::npos);
  EXPECT_NE(Complaint({"--ctx-szie", "1"}).find("did you mean --ctx-size?"), std::string::npos);
  EXPECT_NE(Complaint({"--qqqqqqqqqq"}).find("unknown flag --qqqqqqqqqq"), std::string::npos);
}

TEST(ServeOptions, UnknownFlagIsNamedEvenWhenTheModelIsMissing) {
  const auto parsed = ParseServe({"--modle", "m.gguf"});
  ASSERT_FALSE(parsed);
  EXPECT_NE(parsed.error().message.find("did you mean --model?"), std::string::npos);
}

TEST(ServeOptions, ModelIsRequired) {
  const auto parsed = ParseServe({});
  ASSERT_FALSE(parsed);
  EXPECT_NE(parsed.error().message.find("--model"), std::string::npos);
}

TEST(ServeOptions, BadValuesNameFlagAndRange) {
  const std::string port = Complaint({"--port", "70000"});
  EXPECT_NE(port.find("--port"), std::string::npos);
  EXPECT_NE(port.find("65535"), std::string::npos);
  EXPECT_NE(Complaint({"--lanes", "0"}).find("--lanes"), std::string::npos);
  EXPECT_NE(Complaint({"--lanes", "two"}).find("--lanes"), std::string::npos);
  EXPECT_NE(Complaint({"-ctk", "f99"}).find("f16"), std::string::npos);
  EXPECT_NE(Complaint({"--exactness", "mostly"}).find("token"), std::string::npos);
  EXPECT_NE(Complaint({"-ngl", "many"}).find("--n-gpu-layers"), std::string::npos);
  EXPECT_NE(Complaint({"--lora-scaled", "a.gguf"}).find("FILE:SCALE"), std::string::npos);
  EXPECT_NE(Complaint({"--api-key-file", "/does/not/exist"}).find("--api-key-file"),
            std::string::npos);
}

TEST(ServeOptions, InexactFlagsAreRefusedWithTheReason) {
  EXPECT_NE(Complaint({"--cache-reuse", "256"}).find("exact prefixes only"), std::string::npos);
  EXPECT_NE(Complaint({"--context-shift"}).find("not exact"), std::string::npos);
}

TEST(ServeOptions, ListsAreCollected) {
  const ServeOptions options = Parse(
      {"--api-key", "a,b", "--api-key", "c", "--lora", "x.gguf", "--lora-scaled", "y.gguf:0.5"});
  EXPECT_EQ(options.api_keys, (std::vector<std::string>{"a", "b", "c"}));
  ASSERT_EQ(options.adapters.size(), 2U);
  EXPECT_EQ(options.adapters[1].first, "y.gguf");
  EXPECT_FLOAT_EQ(options.adapters[1].second, 0.5F);
  EXPECT_EQ(Parse({"--host", "127.0.0.1,::1"}).hosts,
            (std::vector<std::string>{"127.0.0.1", "::1"}));
  EXPECT_NE(Complaint({"--host", ","}).find("--host"), std::string::npos);
}

TEST(ServeOptions, StagesHaveTheSettings) {
  EXPECT_FALSE(Parse({}).stages.on());
  const std::string secret = testing::TempDir() + "serve-secret";
  std::ofstream(secret) << "open-sesame\n";
  const StagesSetup stages =
      Parse({"--stages", "a:1,b:2/0..3", "--stage-secret-file", secret, "--stage-ca", "ca.pem",
             "--stage-timeout", "7", "--stage-wire", "int8", "--stage-activations", "9"})
          .stages;
  EXPECT_EQ(stages.addresses, (std::vector<std::string>{"a:1", "b:2/0..3"}));
  EXPECT_EQ(stages.secret, "open-sesame");
  EXPECT_EQ(stages.ca_file, "ca.pem");
  EXPECT_EQ(stages.timeout_seconds, 7U);
  EXPECT_EQ(stages.wire, pipeline::WireFormat::kInt8);
  EXPECT_EQ(stages.activations_mib, 9U);
  EXPECT_EQ(Parse({"--stages", "a:1"}).stages.wire, pipeline::WireFormat::kF32);

  for (const char* flag : {"-c", "-np", "-ub", "-t", "-ngl"})
    EXPECT_NE(Complaint({"--stages", "a:1", flag, "1"}).find("`skippy stage serve`"),
              std::string::npos)
        << flag;
  EXPECT_NE(Complaint({"--stages", "a:1", "--swa-full"}).find("--swa-full is a setting"),
            std::string::npos);
  EXPECT_NE(Complaint({"--stages", "a:1", "--lora", "x.gguf"}).find("x.gguf"), std::string::npos);
  EXPECT_NE(Complaint({"--stage-wire", "int8"}).find("without --stages"), std::string::npos);
  EXPECT_NE(Complaint({"--stages", ","}).find("--stages"), std::string::npos);
  EXPECT_NE(Complaint({"--stages", "a:1", "--stage-wire", "int4"}).find("int8"), std::string::npos);
}

TEST(ServeOptions, LastOfARepeatedFlagWins) {
  EXPECT_EQ(Parse({"--port", "1", "--port", "2"}).port, 2);
}

TEST(ServeOptions, HelpTellsTheFlags) {
  const auto parsed = ParseServe({"-h"});
  ASSERT_TRUE(parsed);
  ASSERT_TRUE(parsed->help);
  EXPECT_NE(parsed->help->find("--ctx-size"), std::string::npos);
}

}  // namespace
}  // namespace skippy::cli
