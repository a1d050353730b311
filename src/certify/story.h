// Story: requests that prepare a state, and one (the probe) that must be served from it and answer
// like a cold run. Builds the stories of the tier matrix and tells what a tier can serve of them.
//
// Pure but for the questions that HotReach asks the runtime.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "certify/arena.h"
#include "certify/tier_matrix.h"

namespace skippy::certify {

struct Story {
  std::vector<Ask> setup;
  Ask probe;
  // The probe is that setup request, its answer, and `next`.
  std::optional<std::size_t> after_answer;
  std::vector<Token> next;
  std::optional<std::size_t> compare_too;  // a setup request whose answer must be cold's as well
  bool forget_lanes = false;  // before the probe, so that a decoded result's state comes from pages
  bool evicts = false;        // something must have been lost on the way
  std::uint64_t max_bytes = 0;  // of the cache
};
Story MakeStory(Arena& arena, Tier tier, Scenario scenario, Exactness exactness);

// What happened to a setup request.
struct Told {
  Ask ask;
  Answer answer;
};
// Prompt and answer as far as they were evaluated.
std::vector<Token> EvaluatedText(const Told& told);

// The tokens that must at least come from the tier; 0 with a reason when this memory cannot serve
// the probe from it.
struct Reach {
  Pos tokens = 0;
  std::string reason;
};
Reach HostReach(const Arena& arena, const std::vector<Told>& told, const Ask& probe,
                Exactness exactness);
Reach HotReach(Arena& arena, const std::vector<Told>& told, const Ask& probe, Exactness exactness);

std::vector<Token> Joined(std::vector<Token> head, const std::vector<Token>& tail);
Pos CommonPrefix(TokenSpan a, TokenSpan b);
// A text that shares not even its first token with the base text.
std::vector<Token> UnrelatedText(Arena& arena, std::size_t count, std::uint64_t which);

}  // namespace skippy::certify
