// Reads GGUF headers before llama.cpp sees the file, so that a wrong, damaged or truncated file is
// a clear error.
//
// Guarantees: no exception, no abort. Errors: kNotFound (no such file), kInvalidArgument (not a
// regular file, unreadable, not a GGUF, damaged header, truncated: the message has both sizes, a
// missing part of a split model). Cost: reads the header only; DigestFiles reads everything (about
// 3 GB/s from the page cache).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "skippy/digest.h"
#include "skippy/result.h"

namespace skippy::llama {

struct GgufFacts {
  std::vector<std::string> files;  // all parts of a split model, in order; else the one file
  std::uint64_t bytes = 0;         // of all files
  std::uint64_t tensors = 0;
  std::string architecture;  // general.architecture; empty if absent
  std::string type;          // general.type ("model", "adapter", ...); empty if absent
  Digest tokenizer;          // over all tokenizer.* metadata of the first file
};

Result<GgufFacts> CheckGguf(const std::string& path);

// Bytes of one number in a key's value; `type`: a gguf_type that is a number or a truth value.
std::size_t GgufNumberBytes(int type);

// BLAKE3 of one file's content, or of all parts one after the other.
// `progress`: called after every few MiB with the bytes so far; false: stop (kCancelled).
using DigestProgress = std::function<bool(std::uint64_t done)>;
Result<Digest> DigestFiles(const std::vector<std::string>& files,
                           const DigestProgress& progress = {});

}  // namespace skippy::llama
