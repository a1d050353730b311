#include "llama/gguf_check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gguf.h>
#include <llama.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_set>

#include "llama/log_hook.h"

namespace skippy::llama {
namespace {

struct GgufFree {
  void operator()(gguf_context* gguf) const { gguf_free(gguf); }
};
using GgufPtr = std::unique_ptr<gguf_context, GgufFree>;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

struct OpenedGguf {
  GgufPtr gguf;
  std::uint64_t file_bytes = 0;
};

Result<std::uint64_t> OpenRegular(const std::string& path, const FileDescriptor& file) {
  if (file.get() < 0) {
    const int code = errno;
    return Err(
        code == ENOENT || code == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kInvalidArgument,
        fmt::format("cannot open model file '{}': {}", path, std::strerror(code)));
  }
  struct stat info {};
  if (fstat(file.get(), &info) != 0)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("cannot inspect model file '{}': {}", path, std::strerror(errno)));
  if (!S_ISREG(info.st_mode))
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("model path '{}' is not a regular file", path));
  return static_cast<std::uint64_t>(info.st_size);
}

Status CheckMagic(const std::string& path, const FileDescriptor& file, std::uint64_t file_bytes) {
  std::array<char, 4> magic{};
  const ssize_t count = pread(file.get(), magic.data(), magic.size(), 0);
  if (count < 0)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("cannot read model file '{}': {}", path, std::strerror(errno)));
  if (count < static_cast<ssize_t>(magic.size()) || std::string_view(magic.data(), 4) != "GGUF")
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}' is not a GGUF file ({} bytes, no GGUF magic)", path, file_bytes));
  return {};
}

// End of the last tensor, from the header alone.
std::uint64_t NeededBytes(const gguf_context* gguf) {
  std::uint64_t end = gguf_get_data_offset(gguf);
  for (std::int64_t i = 0; i < gguf_get_n_tensors(gguf); ++i) {
    end =
        std::max<std::uint64_t>(end, gguf_get_data_offset(gguf) + gguf_get_tensor_offset(gguf, i) +
                                         gguf_get_tensor_size(gguf, i));
  }
  return end;
}

// O_NONBLOCK below: opening a named pipe must fail the regular-file check, not wait for a writer.
Result<OpenedGguf> OpenGguf(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  OpenedGguf opened;
  SKIPPY_TRY(opened.file_bytes, OpenRegular(path, file));
  SKIPPY_RETURN_IF_ERROR(CheckMagic(path, file, opened.file_bytes));
  ClearErrors();
  opened.gguf.reset(gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr}));
  if (!opened.gguf)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("the GGUF header of '{}' ({} bytes) is damaged or cut off: {}", path,
                           opened.file_bytes, ErrorLines()));
  const std::uint64_t needed = NeededBytes(opened.gguf.get());
  if (needed > opened.file_bytes)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}' is truncated: its header promises {} bytes, the file has {}", path,
                           needed, opened.file_bytes));
  return opened;
}

std::string StringKey(const gguf_context* gguf, const char* key) {
  const std::int64_t id = gguf_find_key(gguf, key);
  if (id < 0 || gguf_get_kv_type(gguf, id) != GGUF_TYPE_STRING) return {};
  return gguf_get_val_str(gguf, id);
}

// split.no and split.count are u16 in practice; other integer types are accepted.
std::int64_t IntegerKey(const gguf_context* gguf, const char* key, std::int64_t otherwise) {
  const std::int64_t id = gguf_find_key(gguf, key);
  if (id < 0) return otherwise;
  switch (gguf_get_kv_type(gguf, id)) {
    case GGUF_TYPE_UINT16: return gguf_get_val_u16(gguf, id);
    case GGUF_TYPE_INT16: return gguf_get_val_i16(gguf, id);
    case GGUF_TYPE_UINT32: return gguf_get_val_u32(gguf, id);
    case GGUF_TYPE_INT32: return gguf_get_val_i32(gguf, id);
    default: return otherwise;
  }
}

void HashSized(Blake3Hasher& hasher, const void* data, std::uint64_t size) {
  hasher.Update(std::as_bytes(std::span(&size, 1)));
  hasher.Update({static_cast<const std::byte*>(data), static_cast<std::size_t>(size)});
}

void HashValue(Blake3Hasher& hasher, const gguf_context* gguf, std::int64_t id) {
  const gguf_type type = gguf_get_kv_type(gguf, id);
  if (type == GGUF_TYPE_STRING) {
    const char* text = gguf_get_val_str(gguf, id);
    HashSized(hasher, text, std::strlen(text));
  } else if (type != GGUF_TYPE_ARRAY) {
    HashSized(hasher, gguf_get_val_data(gguf, id), GgufNumberBytes(type));
  } else if (gguf_get_arr_type(gguf, id) == GGUF_TYPE_STRING) {
    for (std::size_t i = 0; i < gguf_get_arr_n(gguf, id); ++i) {
      const char* text = gguf_get_arr_str(gguf, id, i);
      HashSized(hasher, text, std::strlen(text));
    }
  } else {
    HashSized(hasher, gguf_get_arr_data(gguf, id),
              gguf_get_arr_n(gguf, id) * GgufNumberBytes(gguf_get_arr_type(gguf, id)));
  }
}

Digest TokenizerDigest(const gguf_context* gguf) {
  std::map<std::string, std::int64_t> keys;  // sorted: the order in the file means nothing
  for (std::int64_t id = 0; id < gguf_get_n_kv(gguf); ++id) {
    const std::string key = gguf_get_key(gguf, id);
    if (key.starts_with("tokenizer.")) keys.emplace(key, id);
  }
  Blake3Hasher hasher;
  for (const auto& [key, id] : keys) {
    HashSized(hasher, key.data(), key.size());
    HashValue(hasher, gguf, id);
  }
  return hasher.Finish();
}

// llama.cpp asserts that every token text is there once (it renames empty ones itself).
Status CheckTokens(const std::string& path, const gguf_context* gguf) {
  const std::int64_t id = gguf_find_key(gguf, "tokenizer.ggml.tokens");
  if (id < 0) return {};
  if (gguf_get_kv_type(gguf, id) != GGUF_TYPE_ARRAY ||
      gguf_get_arr_type(gguf, id) != GGUF_TYPE_STRING)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}': tokenizer.ggml.tokens is not a list of strings", path));
  std::unordered_set<std::string_view> seen;
  seen.reserve(gguf_get_arr_n(gguf, id));
  for (std::size_t i = 0; i < gguf_get_arr_n(gguf, id); ++i) {
    const std::string_view text = gguf_get_arr_str(gguf, id, i);
    if (!text.empty() && !seen.insert(text).second)
      return Err(
          ErrorCode::kInvalidArgument,
          fmt::format("'{}': the vocabulary has the token '{}' twice (id {})", path, text, i));
  }
  return {};
}

// What llama.cpp asserts of a model's counts (its hparams): layers, draft layers, experts, groups.
Status CheckCounts(const std::string& path, const gguf_context* gguf,
                   const std::string& architecture) {
  constexpr std::int64_t kMaxLayers = 512;
  constexpr std::int64_t kMaxExperts = 1024;
  const auto number = [&](const char* key, std::int64_t otherwise) {
    return IntegerKey(gguf, fmt::format("{}.{}", architecture, key).c_str(), otherwise);
  };
  const auto refused = [&](const char* key, std::int64_t value, const std::string& limit) {
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}': {}.{} is {}, must be {}", path, architecture, key, value, limit));
  };
  const std::int64_t layers = number("block_count", 1);
  if (layers < 1 || layers > kMaxLayers)
    return refused("block_count", layers, fmt::format("1 to {}", kMaxLayers));
  const std::int64_t drafts = number("nextn_predict_layers", 0);
  if (drafts < 0 || drafts > layers)
    return refused("nextn_predict_layers", drafts, fmt::format("0 to {}", layers));
  const std::int64_t experts = number("expert_count", 0);
  if (experts < 0 || experts > kMaxExperts)
    return refused("expert_count", experts, fmt::format("0 to {}", kMaxExperts));
  const std::int64_t fewest = experts > 0 ? 1 : 0;
  const std::int64_t used = number("expert_used_count", fewest);
  if (used < fewest || used > experts)
    return refused("expert_used_count", used, fmt::format("{} to {}", fewest, experts));
  const std::int64_t groups = number("expert_group_count", 0);
  if (groups < 0 || (groups > 0 && (groups >= experts || experts % groups != 0)))
    return refused("expert_group_count", groups,
                   fmt::format("a divisor of the {} experts, and smaller", experts));
  const std::int64_t groups_used = number("expert_group_used_count", 1);
  if (groups > 1 && (groups_used < 1 || groups_used >= groups))
    return refused("expert_group_used_count", groups_used, fmt::format("1 to {}", groups - 1));
  return {};
}

Result<std::vector<std::string>> PartNames(const std::string& path, std::int64_t number,
                                           std::int64_t count) {
  if (number != 0)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}' is part {} of {} of a split model: give the first part", path,
                           number + 1, count));
  std::vector<char> prefix(path.size() + 64);
  const int parts = static_cast<int>(count);
  if (llama_split_prefix(prefix.data(), prefix.size(), path.c_str(), 0, parts) <= 0)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}' is the first of {} parts, but is not named *-00001-of-{:05}.gguf",
                           path, count, count));
  std::vector<std::string> names;
  for (int i = 0; i < parts; ++i) {
    std::vector<char> name(path.size() + 64);
    llama_split_path(name.data(), name.size(), prefix.data(), i, parts);
    names.emplace_back(name.data());
  }
  return names;
}

}  // namespace

std::size_t GgufNumberBytes(int type) {
  switch (type) {
    case GGUF_TYPE_UINT8:
    case GGUF_TYPE_INT8:
    case GGUF_TYPE_BOOL: return 1;
    case GGUF_TYPE_UINT16:
    case GGUF_TYPE_INT16: return 2;
    case GGUF_TYPE_UINT64:
    case GGUF_TYPE_INT64:
    case GGUF_TYPE_FLOAT64: return 8;
    default: return 4;
  }
}

Result<GgufFacts> CheckGguf(const std::string& path) try {
  InitialiseBackend();
  SKIPPY_TRY(OpenedGguf first, OpenGguf(path));
  SKIPPY_RETURN_IF_ERROR(CheckTokens(path, first.gguf.get()));
  GgufFacts facts;
  facts.files = {path};
  facts.bytes = first.file_bytes;
  facts.tensors = static_cast<std::uint64_t>(gguf_get_n_tensors(first.gguf.get()));
  facts.architecture = StringKey(first.gguf.get(), "general.architecture");
  SKIPPY_RETURN_IF_ERROR(CheckCounts(path, first.gguf.get(), facts.architecture));
  facts.type = StringKey(first.gguf.get(), "general.type");
  facts.tokenizer = TokenizerDigest(first.gguf.get());
  const std::int64_t count = IntegerKey(first.gguf.get(), "split.count", 0);
  if (count <= 1) return facts;
  SKIPPY_TRY(facts.files, PartNames(path, IntegerKey(first.gguf.get(), "split.no", 0), count));
  for (std::size_t i = 1; i < facts.files.size(); ++i) {
    SKIPPY_TRY(const OpenedGguf part, OpenGguf(facts.files[i]));
    const std::int64_t number = IntegerKey(part.gguf.get(), "split.no", -1);
    if (number != static_cast<std::int64_t>(i) ||
        IntegerKey(part.gguf.get(), "split.count", -1) != count)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("'{}' is not part {} of {} as its name says: fetch the model's parts "
                             "again",
                             facts.files[i], i + 1, count));
    facts.bytes += part.file_bytes;
    facts.tensors += static_cast<std::uint64_t>(gguf_get_n_tensors(part.gguf.get()));
  }
  return facts;
} catch (const std::exception& error) {
  return Err(ErrorCode::kInvalidArgument, fmt::format("cannot read '{}': {}", path, error.what()));
}

Result<Digest> DigestFiles(const std::vector<std::string>& files, const DigestProgress& progress) {
  constexpr std::size_t kBuffer = std::size_t{4} << 20;
  const auto buffer = std::make_unique<std::byte[]>(kBuffer);
  Blake3Hasher hasher;
  std::uint64_t done = 0;
  for (const std::string& path : files) {
    // read(), not a mapping: a file that shrinks meanwhile must be an error, not a SIGBUS.
    const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    SKIPPY_TRY(std::uint64_t left, OpenRegular(path, file));
    posix_fadvise(file.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
    while (left > 0) {
      const ssize_t count = read(file.get(), buffer.get(), std::min<std::uint64_t>(kBuffer, left));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0)
        return Err(ErrorCode::kInvalidArgument,
                   fmt::format("cannot read model file '{}': {}", path,
                               count == 0 ? "it became shorter" : std::strerror(errno)));
      hasher.Update({buffer.get(), static_cast<std::size_t>(count)});
      left -= static_cast<std::uint64_t>(count);
      done += static_cast<std::uint64_t>(count);
      if (progress && !progress(done))
        return Err(ErrorCode::kCancelled, "interrupted while the model's digest was taken");
    }
  }
  return hasher.Finish();
}

}  // namespace skippy::llama
