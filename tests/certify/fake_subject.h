// The fake runtime as a subject of certification, sound or spoilt.
#pragma once

#include <string>
#include <vector>

#include "certify/mutations.h"
#include "certify/subject.h"
#include "runtime/fake/fake_runtime.h"

namespace skippy::certify_test {

using runtime::fake::FakeOptions;
using runtime::fake::FakeRuntime;
using runtime::fake::ShapeKind;

// Tensors as fake_runtime.cc lays them out.
inline TensorLayout LayoutOf(ShapeKind shape) {
  TensorLayout layout;
  switch (shape) {
    case ShapeKind::kAttention:
      layout.row_bytes = {8, 8, 6, 6};
      layout.value = 2;
      break;
    case ShapeKind::kMla: layout.row_bytes = {6}; break;
    case ShapeKind::kWindow:
      layout.row_bytes = {8, 6};
      layout.window_first = 8;
      break;
    case ShapeKind::kWindowOnly: layout.window_first = 10; break;
    case ShapeKind::kRecurrent: break;
    case ShapeKind::kHybrid: layout.row_bytes = {8, 6}; break;
    case ShapeKind::kHybridWindow:
      layout.row_bytes = {8};
      layout.window_first = 6;
      break;
  }
  return layout;
}

class FakeSubject final : public certify::Subject {
 public:
  explicit FakeSubject(const FakeOptions& options, Mutation mutation = Mutation::kNone)
      : options_(options), mutation_(mutation) {}

  Result<std::unique_ptr<runtime::Runtime>> NewRuntime(
      const runtime::RuntimeOptions& asked) override {
    if (asked.type_k == "q4_0")
      return Err(ErrorCode::kInvalidArgument, "type_k: q4_0 needs other head sizes");
    FakeOptions options = options_;
    if (asked.context > 0) options.context = asked.context;
    if (asked.chunk > 0) options.chunk = asked.chunk;
    options.lanes = asked.lanes;
    const auto shadow = [options, this] {
      FakeOptions other = options;
      // Another rope factor: the same text gives other rows.
      if (mutation_ == Mutation::kWrongRope) ++other.weights_seed;
      return std::make_unique<FakeRuntime>(other);
    };
    return Mutate(std::make_unique<FakeRuntime>(options), mutation_, LayoutOf(options.shape),
                  shadow);
  }

  std::vector<Token> Text(std::size_t count, std::uint64_t seed) override {
    std::vector<Token> tokens(count);
    for (std::size_t i = 0; i < count; ++i)
      tokens[i] = static_cast<Token>(runtime::fake::Mix(seed, i) % options_.vocab);
    return tokens;
  }

 private:
  const FakeOptions options_;
  const Mutation mutation_;
};

inline std::vector<ShapeKind> AllShapes() {
  std::vector<ShapeKind> shapes;
  for (int i = 0; i < runtime::fake::kShapeKindCount; ++i)
    shapes.push_back(static_cast<ShapeKind>(i));
  return shapes;
}

}  // namespace skippy::certify_test
