// Probabilities of the most likely tokens, from raw logits. Pure; O(vocabulary).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "skippy/types.h"

namespace skippy::api {

struct TokenProb {
  Token token = 0;
  float probability = 0;
};

struct TopProbs {
  float sampled = 0;           // probability of the sampled token
  std::vector<TokenProb> top;  // at most `count`, most likely first
};

// Softmax over all logits (no temperature, no sampling chain), as llama-server reports by default.
TopProbs ComputeTopProbs(std::span<const float> logits, Token sampled, std::size_t count);

}  // namespace skippy::api
