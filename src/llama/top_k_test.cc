#include "llama/top_k.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace skippy::llama {
namespace {

std::vector<llama_token> Ids(std::span<const float> logits, std::size_t k) {
  std::vector<llama_token_data> out{{.id = 7, .logit = 7, .p = 7}};  // what was there must go
  TopK(logits, k, out);
  std::vector<llama_token> ids;
  for (const llama_token_data& candidate : out) {
    EXPECT_EQ(candidate.logit, logits[static_cast<std::size_t>(candidate.id)]);
    EXPECT_EQ(candidate.p, 0.0F);
    ids.push_back(candidate.id);
  }
  return ids;
}

std::vector<llama_token> Sorted(std::span<const float> logits, std::size_t k) {
  std::vector<llama_token> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](llama_token a, llama_token b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  ids.resize(std::min(k, ids.size()));
  return ids;
}

// Few different values, so that ties are common; infinities among them.
RC_GTEST_PROP(TopK, IsAStableSortCutOff, ()) {
  const auto picks = *rc::gen::container<std::vector<int>>(*rc::gen::inRange<std::size_t>(0, 700),
                                                           rc::gen::inRange(-20, 21));
  std::vector<float> logits;
  for (const int pick : picks)
    logits.push_back(pick == -20 ? -std::numeric_limits<float>::infinity()
                                 : static_cast<float>(pick) / 4);
  const auto k = *rc::gen::inRange<std::size_t>(0, 200);
  RC_ASSERT(Ids(logits, k) == Sorted(logits, k));
}

TEST(TopK, FindsALateMaximumInALargeVocabulary) {
  std::vector<float> logits(262'144 + 13, -1.0F);
  logits.back() = 3.0F;
  logits[131'072] = 2.0F;
  EXPECT_EQ(Ids(logits, 3), (std::vector<llama_token>{262'156, 131'072, 0}));
}

}  // namespace
}  // namespace skippy::llama
