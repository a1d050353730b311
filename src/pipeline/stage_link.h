// StageLink: what a coordinator asks of one stage, wherever that runs. StageHost answers it in this
// process; src/rpc carries it to another one.
//
// Sessions. Attach begins a session and empties all lanes; every other call belongs to one, and a
// stage refuses calls of an older session (it was restarted, another coordinator took over) and
// calls that were overtaken: their number is not above all numbers seen. So nothing that was sent
// before an error can take effect after the caller has gone on.
//
// Threads: calls of one link come one after another (StageQueue sees to it). Errors: kUnavailable:
// the stage is away, or the session is over; attach again. Others: of this call alone. No call
// waits for ever: the link has deadlines.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pipeline/layer_range.h"
#include "pipeline/piece.h"
#include "runtime/runtime.h"
#include "runtime/stage_access.h"
#include "skippy/digest.h"
#include "skippy/result.h"
#include "skippy/types.h"

namespace skippy::pipeline {

// Of the package that a stage was loaded from.
struct StagePackage {
  Digest model;  // the whole one
  std::string model_name;
  std::string architecture;
  std::uint32_t model_layers = 0;
  LayerRange layers;
  // Dummy layers in the stage's file before the first of the model's; those behind them are the
  // model's, then dummies again.
  std::uint32_t dummies_in_front = 0;
  bool operator==(const StagePackage&) const = default;
};

struct StageDescription {
  StagePackage package;
  runtime::RuntimeInfo info;  // of the stage alone; its identity tells settings, not layers
  std::uint32_t input_width = 0;
  std::uint32_t output_width = 0;  // 0: logits leave
  std::uint64_t session = 0;
};

struct LanePlace {
  Pos end = 0;
  Pos window_from = 0;  // first position whose window rows are held
  bool operator==(const LanePlace&) const = default;
};

struct StageOutput {
  std::vector<float> rows;                 // of all items, token-major; empty where logits leave
  std::vector<std::vector<float>> logits;  // one entry an item; empty: not wanted
  std::vector<LanePlace> lanes;            // one entry an item
};

struct StageRestore {
  SeqId lane;
  Pos end = 0;
  std::vector<PieceSlice> kv;      // cover [0, end); empty: the stage has none
  std::vector<PieceSlice> window;  // cover the window before `end`
  std::optional<PieceKey> snapshot;
};

class StageLink {
 public:
  virtual ~StageLink() = default;
  virtual const std::string& address() const = 0;  // for people

  virtual Result<StageDescription> Attach() = 0;
  // As StageAccess::DecodeRows.
  virtual Result<StageOutput> Decode(std::span<const runtime::RowsItem> items) = 0;
  virtual Status Clear(SeqId lane) = 0;
  // kUnsupported: this memory cannot; the lane is unchanged.
  virtual Result<LanePlace> Truncate(SeqId lane, Pos end) = 0;
  virtual Result<LanePlace> Copy(SeqId from, SeqId to) = 0;
  // Keeps the piece of what the lane holds now.
  virtual Status Keep(SeqId lane, const PieceKey& piece) = 0;
  // Which of them could be restored; one entry each.
  virtual Result<std::vector<bool>> Held(std::span<const PieceKey> pieces) = 0;
  // All pieces of these names that could be restored.
  virtual Result<std::vector<PieceKey>> Find(std::span<const Digest> names) = 0;
  // Drops all pieces, of whatever session.
  virtual Status Forget() = 0;
  // kNotFound: a piece is not held any more. On error the lane is empty.
  virtual Result<LanePlace> Restore(const StageRestore& restore) = 0;
};

}  // namespace skippy::pipeline
