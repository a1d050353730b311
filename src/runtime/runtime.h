// The port: what the engine asks of an inference runtime that holds several isolated sequences
// (lanes).
//
// Implementations: src/llama (llama.cpp) and src/runtime/fake (deterministic, for tests).
//
// Threads: single-threaded; only the engine thread calls it, except info() and ResolveAdapters(),
// which read what never changes after construction and may be called by any thread. Errors: a
// failed Decode or Import leaves the lanes it touched in an unknown state; the caller clears them.
// No call aborts the process or throws.
//
// Blocks. A block holds the rows of n consecutive positions of one component. Its inner layout is
// tensor-major: for each tensor of the component in a fixed order, n rows of that tensor's row
// size. So rows [f, f + r) of a block are, per tensor, one contiguous run; block size == n * row
// bytes of the shape.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "skippy/identity.h"
#include "skippy/memory_shape.h"
#include "skippy/result.h"
#include "skippy/row_slice.h"
#include "skippy/types.h"

namespace skippy::runtime {

struct RuntimeInfo {
  MemoryShape shape;
  PayloadPolicy policy = PayloadPolicy::kResidentKv;
  std::string policy_reason;  // why the policy is kOff, or a note; empty otherwise
  std::uint32_t lanes = 1;
  std::uint32_t context = 0;  // positions a lane
  std::uint32_t chunk = 0;    // most tokens of one prefill call; the grid
  std::uint32_t vocab = 0;
  Identity identity;  // without adapters and salt
};

// A step of one lane: tokens at positions [pos, pos + tokens.size()).
struct DecodeItem {
  SeqId lane;
  Pos pos = 0;
  TokenSpan tokens;
  bool want_logits = false;  // of the last token
};

struct ImportRequest {
  SeqId lane;
  Pos end = 0;       // positions [0, end) afterwards
  TokenSpan tokens;  // tokens [0, end)
  std::span<const RowSlice> kv;
  std::span<const RowSlice> window;
  ByteSpan snapshot;
};

class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual const RuntimeInfo& info() const = 0;

  // One forward pass. Either one item of many tokens (prefill: one sequence a call, canonical
  // shape) or several items of one token each (decode of several lanes). Logits of item i:
  // Logits(i), valid until the next Decode.
  virtual Status Decode(std::span<const DecodeItem> items) = 0;
  virtual std::span<const float> Logits(std::size_t item) = 0;

  // Positions held by the lane, [0, end); end == 0 when empty.
  virtual Pos End(SeqId lane) const = 0;
  // First position whose window rows are still held; 0 for shapes without a window.
  virtual Pos WindowHeldFrom(SeqId lane) const = 0;
  // Cuts the lane to [0, end). False: this memory cannot (recurrent, or the window before `end` is
  // gone); the lane is then unchanged.
  virtual bool Truncate(SeqId lane, Pos end) = 0;
  virtual void Clear(SeqId lane) = 0;
  // Copies a whole sequence into an empty lane, where the runtime can do it; kUnsupported
  // elsewhere.
  virtual Status Copy(SeqId from, SeqId to) = 0;

  // Copies rows of a lane into `out` in block layout; out.size() == positions.size() * row bytes.
  virtual Status ExportRows(SeqId lane, Component component, PosRange positions,
                            MutableByteSpan out) = 0;
  virtual Status ExportSnapshot(SeqId lane, MutableByteSpan out) = 0;
  // Replaces the lane's content by the given state, in one batched movement. On error the lane is
  // empty.
  virtual Status Import(const ImportRequest& request) = 0;

  // Selects the adapters (by index into the loaded ones, with scales) for following Decode calls.
  // Unknown index: kInvalidArgument. Returns what goes into the identity.
  virtual Result<std::vector<AdapterIdentity>> ResolveAdapters(
      std::span<const std::pair<std::uint32_t, float>> adapters) const = 0;
  virtual Status UseAdapters(std::span<const std::pair<std::uint32_t, float>> adapters) = 0;
};

// Chooses tokens from logits; one object a request, so nothing leaks between requests.
class Sampler {
 public:
  virtual ~Sampler() = default;
  // May be called several times for one step (it does not advance).
  virtual Result<Token> Sample(std::span<const float> logits) = 0;
  virtual void Accept(Token token) = 0;
};

}  // namespace skippy::runtime
