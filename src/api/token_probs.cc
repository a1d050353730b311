#include "api/token_probs.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace skippy::api {

TopProbs ComputeTopProbs(std::span<const float> logits, Token sampled, std::size_t count) {
  TopProbs result;
  if (logits.empty()) return result;
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - largest));
  const auto probability = [&](Token token) {
    const double e =
        std::exp(static_cast<double>(logits[static_cast<std::size_t>(token)] - largest));
    return static_cast<float>(e / sum);
  };

  // The best `count` so far as a heap whose front is the weakest of them: most logits fail one
  // comparison.
  const auto better = [&](Token a, Token b) {
    const float la = logits[static_cast<std::size_t>(a)];
    const float lb = logits[static_cast<std::size_t>(b)];
    return la != lb ? la > lb : a < b;
  };
  std::vector<Token> heap;
  count = std::min(count, logits.size());
  heap.reserve(count);
  for (Token token = 0; static_cast<std::size_t>(token) < logits.size() && count > 0; ++token) {
    if (heap.size() < count) {
      heap.push_back(token);
      std::push_heap(heap.begin(), heap.end(), better);
    } else if (better(token, heap.front())) {
      std::pop_heap(heap.begin(), heap.end(), better);
      heap.back() = token;
      std::push_heap(heap.begin(), heap.end(), better);
    }
  }
  std::sort_heap(heap.begin(), heap.end(), better);

  if (sampled >= 0 && static_cast<std::size_t>(sampled) < logits.size()) {
    result.sampled = probability(sampled);
  }
  result.top.reserve(heap.size());
  for (const Token token : heap) result.top.push_back({token, probability(token)});
  return result;
}

}  // namespace skippy::api
