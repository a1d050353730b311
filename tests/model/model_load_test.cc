// Loading: good files are identified by content, bad ones are clear errors before llama.cpp sees
// them.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "llama/gguf_check.h"
#include "llama/model.h"
#include "model/gguf_builder.h"
#include "model/harness.h"

namespace skippy::model_test {
namespace {

std::string Fixture(const std::string& file) {
  return std::string(SKIPPY_FIXTURE_DIR) + "/" + file;
}

class ModelLoadTest : public ::testing::Test {
 protected:
  static Error LoadError(const std::string& path) {
    auto model =
        llama::Model::Load({.path = path, .gpu_layers = -1, .use_mmap = true, .adapters = {}});
    if (model) return {ErrorCode::kInternal, "it loaded"};
    return model.error();
  }
  static void ExpectRefused(const std::string& path, ErrorCode code, const std::string& part) {
    const Error error = LoadError(path);
    EXPECT_EQ(error.code, code) << error.message;
    EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
  }

  TempFolder folder_;
};

TEST_F(ModelLoadTest, AModelIsIdentifiedByItsContent) {
  const std::string path = Fixture("llama-tiny.gguf");
  auto model = LoadModel(path);
  ASSERT_NE(model, nullptr);
  const auto bytes = ReadBytes(path);
  EXPECT_EQ(model->content_digest(), Blake3(std::as_bytes(std::span(bytes))));
  EXPECT_EQ(model->architecture(), "llama");
  auto copy_bytes = bytes;
  copy_bytes.back() = static_cast<char>(copy_bytes.back() ^ 1);  // one bit of the last tensor
  WriteBytes(folder_.Path("other.gguf"), copy_bytes);
  auto other = LoadModel(folder_.Path("other.gguf"));
  ASSERT_NE(other, nullptr);
  EXPECT_NE(other->content_digest(), model->content_digest());
  EXPECT_EQ(other->tokenizer_digest(), model->tokenizer_digest());
}

TEST_F(ModelLoadTest, MissingAndUnreadablePathsAreNamed) {
  ExpectRefused(folder_.Path("absent.gguf"), ErrorCode::kNotFound, "absent.gguf");
  ExpectRefused(folder_.Path("a/b/c.gguf"), ErrorCode::kNotFound, "No such file");
  ExpectRefused(folder_.Path(""), ErrorCode::kInvalidArgument, "not a regular file");
  const std::string pipe = folder_.Path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ExpectRefused(pipe, ErrorCode::kInvalidArgument, "not a regular file");
}

TEST_F(ModelLoadTest, FilesThatAreNotGgufAreNamed) {
  WriteBytes(folder_.Path("empty.gguf"), {});
  ExpectRefused(folder_.Path("empty.gguf"), ErrorCode::kInvalidArgument,
                "not a GGUF file (0 bytes");
  WriteBytes(folder_.Path("text.gguf"), {'h', 'e', 'l', 'l', 'o'});
  ExpectRefused(folder_.Path("text.gguf"), ErrorCode::kInvalidArgument, "not a GGUF file");
  WriteBytes(folder_.Path("short.gguf"), {'G', 'G', 'U', 'F'});
  ExpectRefused(folder_.Path("short.gguf"), ErrorCode::kInvalidArgument, "damaged or cut off");
}

TEST_F(ModelLoadTest, TruncatedFilesSayBothSizes) {
  const auto bytes = ReadBytes(Fixture("llama-tiny.gguf"));
  for (const double part : {0.001, 0.05, 0.2}) {
    const auto size = static_cast<std::size_t>(static_cast<double>(bytes.size()) * part);
    WriteBytes(folder_.Path("cut.gguf"),
               {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)});
    EXPECT_EQ(LoadError(folder_.Path("cut.gguf")).code, ErrorCode::kInvalidArgument) << part;
  }
  WriteBytes(folder_.Path("cut.gguf"), {bytes.begin(), bytes.end() - 1000});
  ExpectRefused(folder_.Path("cut.gguf"), ErrorCode::kInvalidArgument, "truncated");
  ExpectRefused(folder_.Path("cut.gguf"), ErrorCode::kInvalidArgument,
                std::to_string(bytes.size() - 1000));
}

TEST_F(ModelLoadTest, AnUnknownArchitectureIsQuotedFromLlamaCpp) {
  auto bytes = ReadBytes(Fixture("llama-tiny.gguf"));
  const char key[] = "general.architecture";
  auto at = std::search(bytes.begin(), bytes.end(), key, key + sizeof(key) - 1);
  ASSERT_NE(at, bytes.end());
  at = std::search(at + sizeof(key) - 1, bytes.end(), "llama", "llama" + 5);
  ASSERT_NE(at, bytes.end());
  std::memcpy(&*at, "lxama", 5);
  WriteBytes(folder_.Path("unknown.gguf"), bytes);
  ExpectRefused(folder_.Path("unknown.gguf"), ErrorCode::kInvalidArgument,
                "unknown model architecture: 'lxama'");
}

// llama.cpp asserts on it.
TEST_F(ModelLoadTest, ATokenThatIsThereTwiceIsNamed) {
  auto bytes = ReadBytes(Fixture("llama-tiny.gguf"));
  // Two single-byte tokens that follow each other in the list: length 1 as a 64-bit number, then
  // the byte.
  const char first[] = "\1\0\0\0\0\0\0\0a";
  const char second[] = "\1\0\0\0\0\0\0\0b";
  const auto at = std::search(bytes.begin(), bytes.end(), second, second + 9);
  ASSERT_NE(at, bytes.end());
  std::memcpy(&*at, first, 9);
  WriteBytes(folder_.Path("twice.gguf"), bytes);
  ExpectRefused(folder_.Path("twice.gguf"), ErrorCode::kInvalidArgument, "has the token 'a' twice");
}

TEST_F(ModelLoadTest, AdaptersAndModelsAreNotMistakenForEachOther) {
  WriteLora(Fixture("llama-tiny.gguf"), folder_.Path("lora.gguf"), 1);
  ExpectRefused(folder_.Path("lora.gguf"), ErrorCode::kInvalidArgument,
                "LoRA adapter, not a model");
  const auto with = [&](const std::string& adapter) {
    auto loaded = llama::Model::Load({.path = Fixture("llama-tiny.gguf"),
                                      .gpu_layers = -1,
                                      .use_mmap = true,
                                      .adapters = {{adapter, 1.0F}}});
    return loaded ? Error{ErrorCode::kInternal, "it loaded"} : loaded.error();
  };
  EXPECT_NE(with(Fixture("llama-tiny.gguf")).message.find("not a LoRA adapter"), std::string::npos);
  EXPECT_EQ(with(folder_.Path("absent.gguf")).code, ErrorCode::kNotFound);
  WriteActivatedLora(Fixture("llama-tiny.gguf"), folder_.Path("alora.gguf"));
  EXPECT_EQ(with(folder_.Path("alora.gguf")).code, ErrorCode::kUnsupported);
  WriteLora(Fixture("mamba2-tiny.gguf"), folder_.Path("foreign.gguf"), 1);
  EXPECT_EQ(with(folder_.Path("foreign.gguf")).code, ErrorCode::kInvalidArgument);
}

TEST_F(ModelLoadTest, TheTokenizerIsDigestedApartFromTheWeights) {
  const auto llama_facts = llama::CheckGguf(Fixture("llama-tiny.gguf"));
  const auto mamba_facts = llama::CheckGguf(Fixture("mamba2-tiny.gguf"));
  const auto gemma_facts = llama::CheckGguf(ModelPath("gemma-3-270m-q4_k_m.gguf"));
  ASSERT_TRUE(llama_facts && mamba_facts && gemma_facts);
  EXPECT_NE(llama_facts->tokenizer, gemma_facts->tokenizer);
  EXPECT_EQ(llama_facts->architecture, "llama");
  EXPECT_EQ(mamba_facts->architecture, "mamba2");
}

// Each ends the process inside llama.cpp.
TEST_F(ModelLoadTest, CountsThatLlamaCppAssertsOnAreRefused) {
  const std::string path = folder_.Path("model.gguf");
  const auto refused = [&](const std::string& family, const std::string& key, std::uint32_t value) {
    WriteWithNumber(Fixture(family + "-tiny.gguf"), path, key, value);
    ExpectRefused(path, ErrorCode::kInvalidArgument, key + " is " + std::to_string(value));
  };
  refused("llama", "llama.block_count", 0);
  refused("llama", "llama.block_count", 513);
  refused("llama", "llama.block_count", 4'000'000'000U);
  refused("llama", "llama.nextn_predict_layers", 5);
  refused("llama", "llama.expert_count", 1025);
  refused("llama", "llama.expert_used_count", 1);  // of none
  refused("deepseek3", "deepseek2.expert_used_count", 0);
  refused("deepseek3", "deepseek2.expert_used_count", 9);
  refused("deepseek3", "deepseek2.expert_group_count", 3);
  refused("deepseek3", "deepseek2.expert_group_count", 8);
  refused("deepseek3", "deepseek2.expert_group_used_count", 0);
  refused("deepseek3", "deepseek2.expert_group_used_count", 4);
}

}  // namespace
}  // namespace skippy::model_test
