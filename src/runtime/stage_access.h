// StageAccess: a runtime that holds a range of a model's layers. What enters it are rows of
// activations (for the first layers: embeddings), what leaves it are rows again or, from the last
// layers, logits.
//
// A runtime may implement it beside Runtime, whose Decode it then refuses, unless it holds the
// model's embedding rows too: then Decode is DecodeRows with the tokens' rows. Everything else
// (lanes, export, import) is Runtime's and means the state of these layers. The caller asks by
// dynamic_cast.
//
// Guarantees: with the same chunks, rows and settings, the same bits as in the whole model. Threads
// and errors as runtime.h says.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "skippy/memory_shape.h"
#include "skippy/result.h"
#include "skippy/types.h"

namespace skippy::runtime {

// A step of one lane: `rows` are the activations of positions [pos, pos + rows.size() / width),
// token-major.
struct RowsItem {
  SeqId lane;
  Pos pos = 0;
  std::span<const float> rows;
  bool want_logits = false;  // of the last token; from the last layers only
};

// The share of one layer in what Runtime exports of a component: bytes of a row (of the whole
// snapshot).
struct StatePart {
  std::uint32_t layer = 0;  // counted from the first that the runtime holds
  std::uint64_t bytes = 0;
  bool operator==(const StatePart&) const = default;
};

class StageAccess {
 public:
  virtual ~StageAccess() = default;
  virtual std::uint32_t input_width() const = 0;   // floats a token
  virtual std::uint32_t output_width() const = 0;  // 0: the last layers are here, logits leave
  // One forward pass, in the shapes that Runtime::Decode takes: one item of many tokens, or several
  // of one token each. Logits as Runtime::Logits.
  virtual Status DecodeRows(std::span<const RowsItem> items) = 0;
  // In the order in which they lie in an export, all of it. A layer may have several parts. Never
  // changes.
  virtual std::vector<StatePart> Parts(Component component) const = 0;
  // What left the layers for `item`, token-major; valid until the next step.
  virtual std::span<const float> OutputRows(std::size_t item) const = 0;
};

}  // namespace skippy::runtime
