#include "api/token_probs.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace skippy::api {
namespace {

TEST(TopProbs, AreTheSoftmaxOfAllLogits) {
  const std::vector<float> logits{std::log(1.0F), std::log(2.0F), std::log(5.0F)};
  const TopProbs probs = ComputeTopProbs(logits, 0, 2);
  EXPECT_NEAR(probs.sampled, 1.0 / 8, 1e-6);
  ASSERT_EQ(probs.top.size(), 2U);
  EXPECT_EQ(probs.top[0].token, 2);
  EXPECT_NEAR(probs.top[0].probability, 5.0 / 8, 1e-6);
  EXPECT_EQ(probs.top[1].token, 1);
}

TEST(TopProbs, TakeOddInputs) {
  EXPECT_TRUE(ComputeTopProbs({}, 0, 3).top.empty());
  const std::vector<float> one{7.0F};
  EXPECT_EQ(ComputeTopProbs(one, 5, 10).top.size(), 1U);
  EXPECT_EQ(ComputeTopProbs(one, 0, 0).sampled, 1.0F);
  const std::vector<float> banned{-INFINITY, 0.0F};
  EXPECT_EQ(ComputeTopProbs(banned, 0, 2).sampled, 0.0F);
}

RC_GTEST_PROP(TopProbsProperty, AreOrderedAndSumToAtMostOne, (std::vector<std::int8_t> raw)) {
  RC_PRE(!raw.empty());
  const std::vector<float> logits(raw.begin(), raw.end());
  const TopProbs probs = ComputeTopProbs(logits, 0, 5);
  double sum = 0;
  for (std::size_t i = 0; i < probs.top.size(); ++i) {
    sum += static_cast<double>(probs.top[i].probability);
    if (i > 0) RC_ASSERT(probs.top[i - 1].probability >= probs.top[i].probability);
  }
  RC_ASSERT(sum < 1.0 + 1e-4);
  RC_ASSERT(probs.top.front().token ==
            std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace
}  // namespace skippy::api
