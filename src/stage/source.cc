#include "stage/source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gguf.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "llama/gguf_check.h"
#include "llama/model_facts.h"

namespace skippy::stage {

Result<std::unique_ptr<Source>> Source::Open(const std::string& path) {
  SKIPPY_TRY(const llama::GgufFacts checked, llama::CheckGguf(path));
  std::unique_ptr<Source> source(new Source());
  SKIPPY_TRY(source->facts_, llama::ReadModelFacts(path));
  source->bytes_ = checked.bytes;
  for (const std::string& file : checked.files) SKIPPY_RETURN_IF_ERROR(source->AddFile(file));
  return source;
}

Source::~Source() {
  if (metadata_ != nullptr) gguf_free(metadata_);
  for (const int descriptor : descriptors_) close(descriptor);
}

Status Source::AddFile(const std::string& path) {
  const auto file = static_cast<std::uint32_t>(files_.size());
  files_.push_back(path);
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("cannot open model file '{}': {}", path, std::strerror(errno)));
  descriptors_.push_back(descriptor);
  gguf_context* gguf = gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr});
  if (gguf == nullptr)
    return Err(ErrorCode::kInvalidArgument, fmt::format("cannot read the header of '{}'", path));
  for (std::int64_t i = 0; i < gguf_get_n_tensors(gguf); ++i) {
    SourceTensor tensor;
    tensor.name = gguf_get_tensor_name(gguf, i);
    tensor.type = gguf_get_tensor_type(gguf, i);
    const std::int64_t* shape = gguf_get_tensor_ne(gguf, i);
    tensor.shape.assign(shape, shape + GGML_MAX_DIMS);
    while (tensor.shape.size() > 1 && tensor.shape.back() == 1) tensor.shape.pop_back();
    tensor.bytes = gguf_get_tensor_size(gguf, i);
    tensor.file = file;
    tensor.offset = gguf_get_data_offset(gguf) + gguf_get_tensor_offset(gguf, i);
    const std::string name = tensor.name;
    if (!tensors_.emplace(name, std::move(tensor)).second) {
      gguf_free(gguf);
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("'{}': the model has the tensor '{}' twice", path, name));
    }
  }
  if (metadata_ == nullptr) {
    metadata_ = gguf;
  } else {
    gguf_free(gguf);
  }
  return {};
}

const SourceTensor* Source::Find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

Status Source::Read(const SourceTensor& tensor, std::uint64_t offset, MutableByteSpan out) const {
  std::uint64_t at = tensor.offset + offset;
  while (!out.empty()) {
    const ssize_t count =
        pread(descriptors_[tensor.file], out.data(), out.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("cannot read '{}' of '{}': {}", tensor.name, files_[tensor.file],
                             count == 0 ? "the file became shorter" : std::strerror(errno)));
    out = out.subspan(static_cast<std::size_t>(count));
    at += static_cast<std::uint64_t>(count);
  }
  return {};
}

}  // namespace skippy::stage
