// A range of a model's layers: [begin, end), counted from 0; written "begin..end".
#pragma once

#include <cstdint>
#include <string>

namespace skippy::pipeline {

struct LayerRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t size() const { return end - begin; }
  bool operator==(const LayerRange&) const = default;
};

inline std::string ToString(LayerRange range) {  // "3..4"
  return std::to_string(range.begin) + ".." + std::to_string(range.end);
}

}  // namespace skippy::pipeline
