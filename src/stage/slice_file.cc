#include "stage/slice_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <ggml.h>
#include <gguf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "llama/gguf_check.h"

namespace skippy::stage {
namespace {

constexpr std::size_t kPiece = std::size_t{4} << 20;

struct GgufFree {
  void operator()(gguf_context* gguf) const { gguf_free(gguf); }
};
struct GgmlFree {
  void operator()(ggml_context* ggml) const { ggml_free(ggml); }
};

// The header of the file, and where its tensors' data lie.
struct Header {
  std::vector<std::byte> bytes;
  std::vector<std::uint64_t> offsets;  // of each planned tensor, from the file's begin
  std::vector<std::uint64_t> sizes;
  std::uint64_t total = 0;
};

// Lists of numbers with one entry a layer; these are not.
bool IsPerLayer(const std::string& key, const gguf_context* gguf, std::int64_t id,
                const std::string& prefix, std::size_t layers) {
  return key.starts_with(prefix) && gguf_get_kv_type(gguf, id) == GGUF_TYPE_ARRAY &&
         gguf_get_arr_type(gguf, id) != GGUF_TYPE_STRING && gguf_get_arr_n(gguf, id) == layers &&
         !key.ends_with(".rope.dimension_sections");
}

// The entries of `plan.order` of a list with one entry a layer.
void CutList(gguf_context* out, const gguf_context* whole, std::int64_t id, const SlicePlan& plan) {
  const gguf_type type = gguf_get_arr_type(whole, id);
  const std::size_t size = llama::GgufNumberBytes(type);
  const auto* from = static_cast<const std::byte*>(gguf_get_arr_data(whole, id));
  std::vector<std::byte> cut(plan.order.size() * size);
  for (std::size_t i = 0; i < plan.order.size(); ++i)
    std::memcpy(cut.data() + i * size, from + plan.order[i].source * size, size);
  gguf_set_arr_data(out, gguf_get_key(whole, id), type, cut.data(), plan.order.size());
}

void SetKey(gguf_context* out, const std::string& key, const KeyValue& value) {
  if (const auto* number = std::get_if<std::uint32_t>(&value)) {
    gguf_set_val_u32(out, key.c_str(), *number);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    gguf_set_val_str(out, key.c_str(), text->c_str());
  } else {
    const auto& flags = std::get<std::vector<bool>>(value);
    const std::vector<std::int8_t> bytes(flags.begin(), flags.end());
    gguf_set_arr_data(out, key.c_str(), GGUF_TYPE_BOOL, bytes.data(), bytes.size());
  }
}

void SetMetadata(gguf_context* out, const Source& source, const SlicePlan& plan) {
  const gguf_context* whole = source.metadata();
  const std::string prefix = source.facts().architecture + ".";
  std::size_t layers = 0;
  if (const auto found = source.facts().numbers.find(prefix + "block_count");
      found != source.facts().numbers.end())
    layers = static_cast<std::size_t>(found->second.values.front());
  gguf_set_kv(out, whole);
  for (std::int64_t id = 0; id < gguf_get_n_kv(whole); ++id) {
    const std::string key = gguf_get_key(whole, id);
    if (plan.dropped.contains(key) || (!plan.tokenizer && key.starts_with("tokenizer."))) {
      gguf_remove_key(out, key.c_str());
    } else if (!plan.order.empty() && IsPerLayer(key, whole, id, prefix, layers)) {
      CutList(out, whole, id, plan);
    }
  }
  for (const auto& [key, value] : plan.set) SetKey(out, key, value);
}

Result<Header> MakeHeader(const Source& source, const SlicePlan& plan) {
  const std::unique_ptr<gguf_context, GgufFree> gguf(gguf_init_empty());
  SetMetadata(gguf.get(), source, plan);
  const std::unique_ptr<ggml_context, GgmlFree> shapes(
      ggml_init({.mem_size = (plan.tensors.size() + 1) * ggml_tensor_overhead(),
                 .mem_buffer = nullptr,
                 .no_alloc = true}));
  for (const PlannedTensor& tensor : plan.tensors) {
    ggml_tensor* made = ggml_new_tensor(shapes.get(), static_cast<ggml_type>(tensor.type),
                                        static_cast<int>(tensor.shape.size()), tensor.shape.data());
    ggml_set_name(made, tensor.name.c_str());
    gguf_add_tensor(gguf.get(), made);
  }
  Header header;
  header.bytes.resize(gguf_get_meta_size(gguf.get()));
  gguf_get_meta_data(gguf.get(), header.bytes.data());
  header.total = header.bytes.size();
  const std::size_t alignment = gguf_get_alignment(gguf.get());
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
    const auto id = static_cast<std::int64_t>(i);
    const std::uint64_t size = gguf_get_tensor_size(gguf.get(), id);
    if (plan.tensors[i].source != nullptr && plan.tensors[i].source->bytes != size)
      return Err(ErrorCode::kInternal,
                 fmt::format("'{}' would have {} bytes instead of {}", plan.tensors[i].name, size,
                             plan.tensors[i].source->bytes));
    header.offsets.push_back(header.bytes.size() + gguf_get_tensor_offset(gguf.get(), id));
    header.sizes.push_back(size);
    header.total = header.offsets.back() + (size + alignment - 1) / alignment * alignment;
  }
  return header;
}

// The file under its temporary name.
class PartFile {
 public:
  static Result<std::unique_ptr<PartFile>> Open(const std::string& path) {
    std::unique_ptr<PartFile> file(new PartFile(path));
    file->descriptor_ = open(file->part_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file->descriptor_ < 0) return file->Failed("create");
    struct stat info {};
    if (fstat(file->descriptor_, &info) != 0) return file->Failed("inspect");
    file->had_ = static_cast<std::uint64_t>(info.st_size);
    return file;
  }
  ~PartFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  // `zeros`: the bytes are all zero; they become a hole.
  Status Write(std::uint64_t at, ByteSpan bytes, bool zeros) {
    hasher_.Update(bytes);
    if (Has(at, bytes)) return {};
    if (zeros && at >= had_) return {};
    while (!bytes.empty()) {
      const ssize_t count = pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(at));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return Failed("write");
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      at += static_cast<std::uint64_t>(count);
    }
    return {};
  }

  Result<WrittenFile> Finish(std::uint64_t total) {
    if (ftruncate(descriptor_, static_cast<off_t>(total)) != 0) return Failed("extend");
    if (fsync(descriptor_) != 0) return Failed("write");
    if (std::rename(part_.c_str(), path_.c_str()) != 0) return Failed("rename");
    return WrittenFile{total, hasher_.Finish()};
  }

 private:
  explicit PartFile(const std::string& path) : path_(path), part_(path + ".part") {}

  tl::unexpected<Error> Failed(const char* what) const {
    return Err(ErrorCode::kUnavailable,
               fmt::format("cannot {} '{}': {}", what, part_, std::strerror(errno)));
  }
  bool Has(std::uint64_t at, ByteSpan bytes) {
    if (at + bytes.size() > had_) return false;
    there_.resize(bytes.size());
    const ssize_t count = pread(descriptor_, there_.data(), there_.size(), static_cast<off_t>(at));
    return count == static_cast<ssize_t>(bytes.size()) &&
           std::equal(bytes.begin(), bytes.end(), there_.begin());
  }

  const std::string path_;
  const std::string part_;
  int descriptor_ = -1;
  std::uint64_t had_ = 0;
  std::vector<std::byte> there_;
  Blake3Hasher hasher_;
};

class Writer {
 public:
  Writer(const Source& source, PartFile& file, const Header& header, const WriteProgress& progress)
      : source_(source), file_(file), header_(header), progress_(progress) {}

  Status Run(const SlicePlan& plan) {
    SKIPPY_RETURN_IF_ERROR(file_.Write(0, header_.bytes, false));
    std::uint64_t end = header_.bytes.size();
    for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
      SKIPPY_RETURN_IF_ERROR(Zeros(end, header_.offsets[i]));
      end = header_.offsets[i] + header_.sizes[i];
      if (plan.tensors[i].source == nullptr) {
        SKIPPY_RETURN_IF_ERROR(Zeros(header_.offsets[i], end));
      } else {
        SKIPPY_RETURN_IF_ERROR(Copy(*plan.tensors[i].source, header_.offsets[i]));
      }
    }
    return Zeros(end, header_.total);
  }

 private:
  Status Told(std::uint64_t done) {
    if (!progress_ || progress_(done, header_.total)) return {};
    return Err(ErrorCode::kCancelled, "interrupted; what is written is used when it is run again");
  }
  Status Copy(const SourceTensor& tensor, std::uint64_t at) {
    for (std::uint64_t done = 0; done < tensor.bytes;) {
      const auto size =
          static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, tensor.bytes - done));
      piece_.resize(size);
      SKIPPY_RETURN_IF_ERROR(source_.Read(tensor, done, piece_));
      SKIPPY_RETURN_IF_ERROR(file_.Write(at + done, piece_, false));
      done += size;
      SKIPPY_RETURN_IF_ERROR(Told(at + done));
    }
    return {};
  }
  Status Zeros(std::uint64_t begin, std::uint64_t end) {
    while (begin < end) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, end - begin));
      piece_.assign(size, std::byte{0});
      SKIPPY_RETURN_IF_ERROR(file_.Write(begin, piece_, true));
      begin += size;
      SKIPPY_RETURN_IF_ERROR(Told(begin));
    }
    return {};
  }

  const Source& source_;
  PartFile& file_;
  const Header& header_;
  const WriteProgress& progress_;
  std::vector<std::byte> piece_;
};

}  // namespace

Result<WrittenFile> WriteSlice(const Source& source, const SlicePlan& plan, const std::string& path,
                               const WriteProgress& progress) {
  SKIPPY_TRY(const Header header, MakeHeader(source, plan));
  SKIPPY_TRY(const std::unique_ptr<PartFile> file, PartFile::Open(path));
  SKIPPY_RETURN_IF_ERROR(Writer(source, *file, header, progress).Run(plan));
  return file->Finish(header.total);
}

}  // namespace skippy::stage
