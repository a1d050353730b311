#include "llama/state_parts.h"

#include <gtest/gtest.h>

namespace skippy::llama {
namespace {

TEST(StateParts, TheNameTellsTheLayer) {
  EXPECT_EQ(LayerOfName("cache_k_l0"), 0U);
  EXPECT_EQ(LayerOfName("cache_v_l61"), 61U);
  EXPECT_EQ(LayerOfName("cache_ple_r_l7"), 7U);
  EXPECT_EQ(LayerOfName("cache_lid_k_l12"), 12U);
  for (const char* none : {"", "cache_k", "cache_l", "cache_k_l", "cache_k_l7 (view)", "_l-1"})
    EXPECT_EQ(LayerOfName(none), std::nullopt) << none;
}

TEST(StateParts, NeighboursOfOneLayerAreOnePart) {
  const std::vector<TensorShare> shares{{"cache_k_l0", 0, 4},
                                        {"cache_k_l2", 2, 8},
                                        {"cache_v_l2", 2, 2},
                                        {"cache_v_l2", 2, 2},
                                        {"cache_v_l0", 0, 1}};
  const auto parts = PartsOf(shares);
  ASSERT_TRUE(parts);
  EXPECT_EQ(*parts, (std::vector<runtime::StatePart>{{0, 4}, {2, 12}, {0, 1}}));
  EXPECT_TRUE(PartsOf({})->empty());
}

TEST(StateParts, ATensorOfNoKnownLayerIsAnErrorThatNamesIt) {
  const std::vector<TensorShare> shares{{"cache_k_l0", 0, 4}, {"cache_all", std::nullopt, 8}};
  const auto parts = PartsOf(shares);
  ASSERT_FALSE(parts);
  EXPECT_EQ(parts.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(parts.error().message.find("'cache_all'"), std::string::npos);
}

}  // namespace
}  // namespace skippy::llama
