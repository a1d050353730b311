// Run: one request inside the engine, from the queue to OnFinish. Lane: one sequence of the
// runtime, and what it holds. Plain state; the stages (admission, prefill, generation) change it.
//
// Owned by the engine thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "engine/request.h"
#include "skippy/identity.h"
#include "skippy/types.h"

namespace skippy::engine {

using AdapterSet = std::vector<std::pair<std::uint32_t, float>>;

struct Run;

// What a lane holds: the state after `resident`. resident.size() == runtime.End(seq) between any
// two calls of a stage; where the two disagree the lane is cleared (the token list is never trusted
// alone).
struct Lane {
  SeqId seq{};
  Run* run = nullptr;  // who runs here; null: idle
  Namespace ns;        // of the resident tokens
  std::vector<Token> resident;
  bool keep = false;             // may be recorded and gone on with (false: the request opted out)
  Pos recorded_end = 0;          // [0, recorded_end) was recorded, as far as the cache admitted it
  Pos grid_end = 0;              // [0, grid_end) was computed by whole chunks on the grid
  bool has_decode_rows = false;  // some row was computed token by token
  Pos record_again_from = 0;     // after a refused record: not before this length
  std::uint64_t last_used = 0;   // order of release; 0: never used

  Pos end() const { return static_cast<Pos>(resident.size()); }
};

enum class Phase : std::uint8_t {
  kQueued = 0,
  kPrefill =
      1,  // evaluating text up to `goal`: the prompt, or (after a fault) prompt and answer again
  kGenerate = 2,  // the last token of `text` was sampled and is not evaluated yet
  kDone = 3,      // the sink has had its OnFinish
};

// A request that waits for another's prefill to pass a common boundary.
struct SharedWait {
  RequestId leader{};
  Pos boundary = 0;
};

struct Run {
  RequestId id{};
  GenerateRequest request;  // request.prompt is moved to `text`
  Namespace ns;
  AdapterSet adapters;      // zero scales left out
  bool use_cache = false;   // the request allows it and the engine can
  std::vector<Token> text;  // the prompt, then all sampled tokens
  Pos prompt_tokens = 0;
  Phase phase = Phase::kQueued;

  Lane* lane = nullptr;
  bool filled_lane = false;    // the lane holds this run's state (a decoded result may not need it)
  Pos goal = 0;                // kPrefill: until the lane holds text[0, goal)
  std::vector<Pos> snapshots;  // boundaries to record with a snapshot, ascending
  std::vector<Pos> parts;      // those of them that are not for spacing alone, ascending
  std::uint64_t last_chunk = 0;  // round of the last prefill chunk, for taking turns
  std::uint32_t generated = 0;

  bool cancel = false;
  bool prefill_retried = false;
  bool redone_cold = false;   // after logits that were not numbers: no lookup any more
  bool decode_alone = false;  // a batch with it failed: its next step runs alone
  std::optional<SharedWait> wait;
  std::uint32_t waits = 0;

  PromptReport report;
  Pos processed = 0;            // prompt tokens whose state is at hand
  std::uint64_t prefilled = 0;  // tokens evaluated in chunks, repeated ones included
  Tick submitted{};
  Tick admitted{};
  double decode_ms = 0;

  void AddSnapshot(Pos boundary) {
    const auto at = std::lower_bound(snapshots.begin(), snapshots.end(), boundary);
    if (at == snapshots.end() || *at != boundary) snapshots.insert(at, boundary);
  }
  TokenSpan prompt() const { return TokenSpan(text).first(prompt_tokens); }
  bool InPrompt() const { return phase == Phase::kPrefill && generated == 0; }
};

// Length of the common prefix.
inline Pos CommonPrefix(TokenSpan a, TokenSpan b) {
  const std::size_t limit = a.size() < b.size() ? a.size() : b.size();
  std::size_t i = 0;
  while (i < limit && a[i] == b[i]) ++i;
  return static_cast<Pos>(i);
}

}  // namespace skippy::engine
