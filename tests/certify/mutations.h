// Runtimes that are wrong in one way, for showing that certification finds it.
//
// Each wraps a sound runtime and spoils what goes out or in; decoding itself stays right, so cold
// runs are right.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "runtime/runtime.h"

namespace skippy::certify_test {

enum class Mutation : std::uint8_t {
  kNone = 0,
  kForgottenWindowRow,  // the oldest window row of an import is missing
  kStaleSnapshot,       // an imported snapshot is that of an earlier boundary
  kOffByOnePosition,    // exported rows are those of one position before
  kSwappedLayers,       // rows of two layers are exchanged in what is exported
  kKAndVExchanged,      // keys and values of a layer likewise
  kWrongRope,           // keys turned by another rope factor
  kFlippedBit,          // one bit in the middle of each export
  kOtherModelsPage,     // the first page is that of another text
  kImportFails,         // nothing is ever restored: right answers, no reuse
  kCutLeavesDamage,     // a lane that was cut back has a flipped bit
};
std::string_view MutationName(Mutation mutation);

// Row bytes of the tensors of a KV block, in their order.
struct TensorLayout {
  std::vector<std::uint32_t> row_bytes;
  std::size_t layer_a = 0;  // kSwappedLayers: two tensors of the same kind
  std::size_t layer_b = 1;
  std::size_t key = 0;  // kKAndVExchanged
  std::size_t value = 1;
  std::uint32_t window_first = 0;  // row bytes of the first tensor of a window block
  // kWrongRope: turn the 16-bit floats of these tensors; empty: take the rows of `shadow`.
  std::vector<std::size_t> rotated;
};

using RuntimeFactory = std::function<std::unique_ptr<runtime::Runtime>()>;
// `shadow`: a second sound runtime of the same shape, for rows of another text or setting.
std::unique_ptr<runtime::Runtime> Mutate(std::unique_ptr<runtime::Runtime> sound, Mutation mutation,
                                         const TensorLayout& layout, const RuntimeFactory& shadow);

}  // namespace skippy::certify_test
