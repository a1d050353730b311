// Admission: gives a run a lane and as much of its prompt's state as is there, by the cheapest way.
//
// In order: the decoded result of the whole prompt (no forward pass; the state is fetched only if
// more than one token is wanted); a hot lane that goes on where it is; state imported from the
// cache; an empty lane. A restore that fails or does not end where it should is cleared, condemned
// and counted, tried once more with what the cache has then, and else the prompt is evaluated: the
// request never fails for it.
//
// Never across namespaces: adapters and tenant salts are part of them. Cost: one lookup, and one
// comparison of the prompt with each idle lane.
#pragma once

#include <optional>

#include "engine/core.h"
#include "engine/recorder.h"

namespace skippy::engine {

// The logits of a decoded result; borrowed from the hit.
std::span<const float> LogitsOf(const PinnedHit& hit);

class Admission {
 public:
  Admission(Core& core, Recorder& recorder) : core_(core), recorder_(recorder) {}

  bool HasIdleLane() const;

  // REQUIRES: HasIdleLane(). Takes a lane and starts the prefill of the prompt behind what could be
  // reused. With a value returned, the decoded result is at hand and the lane is not filled yet
  // (see Materialize).
  std::optional<PinnedHit> Admit(Run& run);

  // After a decoded result's first token: puts the prompt's state into the lane, or sets the run up
  // to evaluate it.
  void Materialize(Run& run, PinnedHit hit);

  // After a fault: empties the run's lane and restores what the cache has of text[0, goal).
  void Refill(Run& run);

  // The state led to logits that are no numbers: erases all that could be served for this run's
  // text, and lets it evaluate everything again without looking anything up.
  void RedoCold(Run& run);
  // Erases what the cache and idle lanes could serve for this run's text.
  void CondemnAll(const Run& run);

  // What the cache or an idle lane could serve now, without touching either.
  DryRun Peek(const Run& run);

 private:
  struct HotMatch {
    Lane* lane = nullptr;
    Pos usable = 0;
    Pos common = 0;
  };
  struct Query {
    Pos length = 0;  // of the text to look up
    Pos max_boundary = 0;
    bool decoded = false;  // a decoded result will do
    bool peek = false;
    bool again = false;  // see LookupQuery
  };
  LookupResult Lookup(const Run& run, const Query& query);
  LookupResult LookupPrompt(const Run& run, bool peek, bool again = false);
  HotMatch BestHot(const Run& run, Pos limit);
  HotMatch MatchHot(Lane& lane, const Run& run, Pos limit);
  bool TakeHot(const HotMatch& hot);
  Lane& LaneToOverwrite();
  void Occupy(Run& run, Lane& lane);
  void Empty(Run& run);
  std::optional<PinnedHit> StillKept(const Run& run, LookupResult found, const Query& query);
  bool Restore(Run& run, PinnedHit hit);
  void Fetch(Run& run, LookupResult found, const Query& query);
  void Plan(Run& run);

  Core& core_;
  Recorder& recorder_;
};

}  // namespace skippy::engine
