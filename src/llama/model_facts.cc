#include "llama/model_facts.h"

#include <fmt/format.h>
#include <gguf.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "llama/gguf_check.h"

namespace skippy::llama {
namespace {

// llama.cpp's limit of layers is 512; longer arrays are vocabularies and tables.
constexpr std::size_t kMostLayerValues = 4096;

struct GgufFree {
  void operator()(gguf_context* gguf) const { gguf_free(gguf); }
};
using GgufPtr = std::unique_ptr<gguf_context, GgufFree>;

template <class T>
double ValueAt(const void* data, std::size_t index) {
  return static_cast<double>(static_cast<const T*>(data)[index]);
}

std::optional<double> Number(gguf_type type, const void* data, std::size_t index) {
  switch (type) {
    case GGUF_TYPE_UINT8: return ValueAt<std::uint8_t>(data, index);
    case GGUF_TYPE_INT8: return ValueAt<std::int8_t>(data, index);
    case GGUF_TYPE_BOOL: return ValueAt<std::int8_t>(data, index) != 0 ? 1 : 0;
    case GGUF_TYPE_UINT16: return ValueAt<std::uint16_t>(data, index);
    case GGUF_TYPE_INT16: return ValueAt<std::int16_t>(data, index);
    case GGUF_TYPE_UINT32: return ValueAt<std::uint32_t>(data, index);
    case GGUF_TYPE_INT32: return ValueAt<std::int32_t>(data, index);
    case GGUF_TYPE_UINT64: return ValueAt<std::uint64_t>(data, index);
    case GGUF_TYPE_INT64: return ValueAt<std::int64_t>(data, index);
    case GGUF_TYPE_FLOAT32: return ValueAt<float>(data, index);
    case GGUF_TYPE_FLOAT64: return ValueAt<double>(data, index);
    default: return std::nullopt;
  }
}

std::optional<families::Numbers> ReadNumbers(const gguf_context* gguf, std::int64_t id) {
  const gguf_type type = gguf_get_kv_type(gguf, id);
  families::Numbers numbers;
  numbers.array = type == GGUF_TYPE_ARRAY;
  const gguf_type element = numbers.array ? gguf_get_arr_type(gguf, id) : type;
  if (element == GGUF_TYPE_STRING || element == GGUF_TYPE_ARRAY) return std::nullopt;
  const std::size_t count = numbers.array ? gguf_get_arr_n(gguf, id) : 1;
  if (count > kMostLayerValues) return std::nullopt;
  const void* data = numbers.array ? gguf_get_arr_data(gguf, id) : gguf_get_val_data(gguf, id);
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = Number(element, data, i);
    if (!value) return std::nullopt;
    numbers.values.push_back(*value);
  }
  return numbers;
}

void ReadMetadata(const gguf_context* gguf, families::ModelFacts& facts) {
  for (std::int64_t id = 0; id < gguf_get_n_kv(gguf); ++id) {
    const std::string key = gguf_get_key(gguf, id);
    if (gguf_get_kv_type(gguf, id) == GGUF_TYPE_STRING) {
      facts.texts.emplace(key, gguf_get_val_str(gguf, id));
    } else if (key == "tokenizer.ggml.tokens") {
      if (gguf_get_kv_type(gguf, id) == GGUF_TYPE_ARRAY)
        facts.vocabulary = gguf_get_arr_n(gguf, id);
    } else if (auto numbers = ReadNumbers(gguf, id)) {
      facts.numbers.emplace(key, std::move(*numbers));
    }
  }
}

}  // namespace

Result<families::ModelFacts> ReadModelFacts(const std::string& path) try {
  SKIPPY_TRY(const GgufFacts checked, CheckGguf(path));
  if (checked.architecture.empty())
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}' names no general.architecture: not a model", path));
  if (checked.type == "adapter")
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}' is a LoRA adapter, not a model", path));
  families::ModelFacts facts;
  facts.architecture = checked.architecture;
  for (const std::string& file : checked.files) {
    const GgufPtr gguf(gguf_init_from_file(file.c_str(), {.no_alloc = true, .ctx = nullptr}));
    if (!gguf)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("the GGUF header of '{}' changed while it was read", file));
    if (file == checked.files.front()) ReadMetadata(gguf.get(), facts);
    for (std::int64_t i = 0; i < gguf_get_n_tensors(gguf.get()); ++i)
      facts.tensors.insert(gguf_get_tensor_name(gguf.get(), i));
  }
  return facts;
} catch (const std::exception& error) {
  return Err(ErrorCode::kInvalidArgument, fmt::format("cannot read '{}': {}", path, error.what()));
}

}  // namespace skippy::llama
