// Small GGUF files made by tests: LoRA adapters and damaged models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace skippy::model_test {

// A folder of its own, removed at the end.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
};

std::vector<char> ReadBytes(const std::string& path, std::size_t most = SIZE_MAX);
void WriteBytes(const std::string& path, const std::vector<char>& bytes);

// The model with another number in its metadata.
void WriteWithNumber(const std::string& model_path, const std::string& path, const std::string& key,
                     std::uint32_t value);

// A LoRA of rank 2 with random weights on the first layer's query projection.
// model_path: whose shapes it takes.
void WriteLora(const std::string& model_path, const std::string& path, std::uint32_t seed);
// The same with an invocation sequence (aLoRA).
void WriteActivatedLora(const std::string& model_path, const std::string& path);

}  // namespace skippy::model_test
