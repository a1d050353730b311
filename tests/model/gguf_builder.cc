#include "model/gguf_builder.h"

#include <fmt/format.h>
#include <ggml.h>
#include <gguf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <random>

namespace skippy::model_test {
namespace {

struct ModelFacts {
  std::string architecture;
  std::int64_t columns =
      64;  // of the query projection of layer 0; models without one get any shape
  std::int64_t rows = 64;
};

ModelFacts ReadFacts(const std::string& path) {
  ModelFacts facts;
  gguf_context* gguf = gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr});
  if (gguf == nullptr) {
    ADD_FAILURE() << "cannot read " << path;
    return facts;
  }
  facts.architecture = gguf_get_val_str(gguf, gguf_find_key(gguf, "general.architecture"));
  if (const auto id = gguf_find_tensor(gguf, "blk.0.attn_q.weight"); id >= 0) {
    facts.columns = gguf_get_tensor_ne(gguf, id)[0];
    facts.rows = gguf_get_tensor_ne(gguf, id)[1];
  }
  gguf_free(gguf);
  return facts;
}

void WriteAdapter(const std::string& model_path, const std::string& path, std::uint32_t seed,
                  const std::vector<std::uint32_t>& invocation) {
  constexpr std::int64_t kRank = 2;
  const ModelFacts facts = ReadFacts(model_path);
  ggml_context* tensors =
      ggml_init({.mem_size = std::size_t{64} << 20, .mem_buffer = nullptr, .no_alloc = false});
  gguf_context* gguf = gguf_init_empty();
  gguf_set_val_str(gguf, "general.type", "adapter");
  gguf_set_val_str(gguf, "general.architecture", facts.architecture.c_str());
  gguf_set_val_str(gguf, "adapter.type", "lora");
  gguf_set_val_f32(gguf, "adapter.lora.alpha", 4.0F);
  if (!invocation.empty())
    gguf_set_arr_data(gguf, "adapter.alora.invocation_tokens", GGUF_TYPE_UINT32, invocation.data(),
                      invocation.size());
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 0.2F);
  const auto add = [&](const char* name, std::int64_t ne0, std::int64_t ne1) {
    ggml_tensor* tensor = ggml_new_tensor_2d(tensors, GGML_TYPE_F32, ne0, ne1);
    ggml_set_name(tensor, name);
    auto* values = static_cast<float*>(tensor->data);
    for (std::int64_t i = 0; i < ne0 * ne1; ++i) values[i] = normal(random);
    gguf_add_tensor(gguf, tensor);
  };
  add("blk.0.attn_q.weight.lora_a", facts.columns, kRank);
  add("blk.0.attn_q.weight.lora_b", kRank, facts.rows);
  EXPECT_TRUE(gguf_write_to_file(gguf, path.c_str(), /*only_meta=*/false)) << path;
  gguf_free(gguf);
  ggml_free(tensors);
}

}  // namespace

void WriteWithNumber(const std::string& model_path, const std::string& path, const std::string& key,
                     std::uint32_t value) {
  ggml_context* tensors = nullptr;
  gguf_context* whole =
      gguf_init_from_file(model_path.c_str(), {.no_alloc = false, .ctx = &tensors});
  ASSERT_NE(whole, nullptr) << model_path;
  gguf_context* out = gguf_init_empty();
  gguf_set_kv(out, whole);
  gguf_set_val_u32(out, key.c_str(), value);
  for (std::int64_t i = 0; i < gguf_get_n_tensors(whole); ++i)
    gguf_add_tensor(out, ggml_get_tensor(tensors, gguf_get_tensor_name(whole, i)));
  EXPECT_TRUE(gguf_write_to_file(out, path.c_str(), /*only_meta=*/false)) << path;
  gguf_free(out);
  gguf_free(whole);
  ggml_free(tensors);
}

TempFolder::TempFolder() {
  static std::atomic<int> count = 0;
  folder_ = std::filesystem::temp_directory_path() /
            fmt::format("skippy-model-test-{}-{}", getpid(), ++count);
  std::filesystem::create_directories(folder_);
}
TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::vector<char> ReadBytes(const std::string& path, std::size_t most) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::vector<char> bytes(std::min<std::size_t>(most, std::filesystem::file_size(path)));
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

void WriteBytes(const std::string& path, const std::vector<char>& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(file.good()) << path;
}

void WriteLora(const std::string& model_path, const std::string& path, std::uint32_t seed) {
  WriteAdapter(model_path, path, seed, {});
}
void WriteActivatedLora(const std::string& model_path, const std::string& path) {
  WriteAdapter(model_path, path, 1, {1, 2});
}

}  // namespace skippy::model_test
