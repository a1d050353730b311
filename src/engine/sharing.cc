#include "engine/sharing.h"

#include <algorithm>

namespace skippy::engine {
namespace {

// A bound for the unforeseen; a request waits once a level of the prompts' tree.
constexpr std::uint32_t kMaxWaits = 32;

}  // namespace

bool Sharing::StillWaiting(const Run& run, std::span<Run* const> running) const {
  if (!run.wait) return false;
  return std::any_of(running.begin(), running.end(), [&](const Run* leader) {
    return leader->id == run.wait->leader && leader->InPrompt() &&
           leader->lane->end() < run.wait->boundary;
  });
}

// The deepest boundary of the leader's prefill that the follower could start from; 0: none.
Pos Sharing::BoundaryFrom(const Run& follower, const Run& leader) const {
  if (!leader.InPrompt() || !leader.use_cache || leader.ns != follower.ns) return 0;
  const Pos common = CommonPrefix(follower.prompt(), leader.prompt());
  const bool same = common == follower.prompt_tokens && common == leader.prompt_tokens;
  const bool logits_fit = core_.shape().logits_bytes > 0 &&
                          core_.shape().logits_bytes <= core_.cache.options().max_logits_bytes;
  // The whole prompt, if its decoded result will do; else all but the token that yields logits.
  Pos boundary = std::min(common, follower.prompt_tokens - 1);
  if (same && follower.request.allow_decoded_result && logits_fit &&
      core_.Usable(common) == common) {
    boundary = common;
  }
  boundary = core_.Usable(boundary);
  return boundary >= core_.cache.options().min_hit_tokens ? boundary : 0;
}

bool Sharing::WorthIt(const Run& leader, Pos boundary, Pos have) const {
  if (boundary <= have) return false;
  // Memory with snapshots stops exactly there; other memory passes it with the chunk that holds it.
  Pos passed = boundary;
  if (!core_.shape().HasSnapshot()) {
    const Pos chunk = core_.info().chunk;
    passed = std::min(leader.goal, (boundary + chunk - 1) / chunk * chunk);
  }
  const Pos work = passed - leader.lane->end();
  return work <= boundary - have + core_.info().chunk;
}

bool Sharing::ShouldWait(Run& run, std::span<Run* const> running) {
  if (!core_.options.share_prefill || !run.use_cache || run.waits >= kMaxWaits) return false;
  if (StillWaiting(run, running)) return true;
  run.wait.reset();
  Run* best = nullptr;
  Pos best_boundary = 0;
  for (Run* leader : running) {
    const Pos boundary = BoundaryFrom(run, *leader);
    if (boundary > best_boundary && boundary >= leader->lane->end()) {
      best = leader;
      best_boundary = boundary;
    }
  }
  if (best == nullptr) return false;
  const Pos have = admission_.Peek(run).boundary;
  if (!WorthIt(*best, best_boundary, have)) return false;
  if (best->lane->end() == best_boundary) {
    // The leader stands on the boundary: all that is missing is its snapshot.
    if (best->filled_lane) recorder_.SnapshotNow(*best->lane);
    return false;
  }
  if (core_.shape().HasSnapshot()) best->AddSnapshot(best_boundary);
  run.wait = SharedWait{best->id, best_boundary};
  ++run.waits;
  ++core_.stats.shared_prefill_waits;
  return true;
}

}  // namespace skippy::engine
