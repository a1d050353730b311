// A whole model's GGUF files, read tensor by tensor: nothing is loaded.
//
// Threads: immutable after opening; Read is thread-safe. Errors: those of llama::CheckGguf;
// kInvalidArgument when a file became shorter meanwhile. Cost: the headers; Read reads what it is
// asked for and keeps nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "families/model_facts.h"
#include "skippy/result.h"
#include "skippy/types.h"

struct gguf_context;

namespace skippy::stage {

struct SourceTensor {
  std::string name;
  int type = 0;                     // ggml_type
  std::vector<std::int64_t> shape;  // in ggml's order: the row length first
  std::uint64_t bytes = 0;
  std::uint32_t file = 0;
  std::uint64_t offset = 0;  // in that file
};

class Source {
 public:
  static Result<std::unique_ptr<Source>> Open(const std::string& path);
  ~Source();
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  const families::ModelFacts& facts() const { return facts_; }
  // Of the first file, which is the one that llama.cpp takes it from.
  const gguf_context* metadata() const { return metadata_; }
  const std::vector<std::string>& files() const { return files_; }
  std::uint64_t bytes() const { return bytes_; }
  // By name, which also is the order in which they are written.
  const std::map<std::string, SourceTensor, std::less<>>& tensors() const { return tensors_; }
  // Null: there is none.
  const SourceTensor* Find(std::string_view name) const;
  // REQUIRES: offset + out.size() <= tensor.bytes
  Status Read(const SourceTensor& tensor, std::uint64_t offset, MutableByteSpan out) const;

 private:
  Source() = default;
  Status AddFile(const std::string& path);

  families::ModelFacts facts_;
  std::vector<std::string> files_;
  std::vector<int> descriptors_;
  std::uint64_t bytes_ = 0;
  gguf_context* metadata_ = nullptr;
  std::map<std::string, SourceTensor, std::less<>> tensors_;
};

}  // namespace skippy::stage
