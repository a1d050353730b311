#include "stage/layer_range.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "skippy/random.h"

namespace skippy::stage {
namespace {

TEST(ParseRanges, ReadsRangesThatFollowEachOther) {
  const auto three = ParseRanges("0..10,10..20,20..30", 30);
  ASSERT_TRUE(three);
  EXPECT_EQ(*three, (std::vector<LayerRange>{{0, 10}, {10, 20}, {20, 30}}));
  const auto alone = ParseRanges("3..4", 61);
  ASSERT_TRUE(alone);
  EXPECT_EQ(*alone, (std::vector<LayerRange>{{3, 4}}));
  EXPECT_EQ(ToString(alone->front()), "3..4");
}

TEST(ParseRanges, TellsWhatIsWrong) {
  const auto says = [](const char* text, const char* words) {
    const auto ranges = ParseRanges(text, 30);
    ASSERT_FALSE(ranges) << text;
    EXPECT_EQ(ranges.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(ranges.error().message.find(words), std::string::npos) << ranges.error().message;
  };
  says("0..10,12..30", "a gap between 0..10 and 12..30");
  says("0..10,8..30", "an overlap between 0..10 and 8..30");
  says("0..31", "0..30");
  says("4..4", "holds no layer");
  says("5..2", "holds no layer");
  for (const char* text :
       {"", "x", "3", "3..", "..3", "-1..3", "1..2,", "1.5..3", "99999999999..3"})
    says(text, "no range of layers");
}

std::uint64_t Weight(LayerRange range, const Weights& bytes) {
  std::uint64_t weight = range.begin == 0 ? bytes.first : 0;
  for (std::uint32_t i = range.begin; i < range.end; ++i) weight += bytes.layers[i];
  return weight + (range.end == bytes.layers.size() ? bytes.last : 0);
}

std::uint64_t Heaviest(const std::vector<LayerRange>& ranges, const Weights& bytes) {
  std::uint64_t most = 0;
  for (const LayerRange range : ranges) most = std::max(most, Weight(range, bytes));
  return most;
}

// The least heaviest weight over all ways to cut, by trying.
std::uint64_t BestByTrying(std::uint32_t from, std::uint32_t stages, const Weights& bytes) {
  const auto count = static_cast<std::uint32_t>(bytes.layers.size());
  if (stages == 1) return Weight({from, count}, bytes);
  std::uint64_t best = ~std::uint64_t{0};
  for (std::uint32_t end = from + 1; end + stages - 1 <= count; ++end)
    best =
        std::min(best, std::max(Weight({from, end}, bytes), BestByTrying(end, stages - 1, bytes)));
  return best;
}

Weights RandomWeights(std::uint64_t seed, std::uint32_t layers) {
  Weights bytes;
  for (std::uint32_t i = 0; i < layers; ++i)
    bytes.layers.push_back(1 + SplitMix64(seed * 100 + i) % 20);
  bytes.first = SplitMix64(seed) % 10;
  bytes.last = SplitMix64(seed + 7) % 40;
  return bytes;
}

void ExpectWhole(const std::vector<LayerRange>& ranges, std::size_t layers) {
  std::uint32_t at = 0;
  for (const LayerRange range : ranges) {
    EXPECT_EQ(range.begin, at);
    EXPECT_LT(range.begin, range.end);
    at = range.end;
  }
  EXPECT_EQ(at, layers);
}

TEST(CutInto, IsAsEvenAsCanBe) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Weights bytes = RandomWeights(seed, 7);
    for (std::uint32_t stages = 1; stages <= 7; ++stages) {
      const auto ranges = CutInto(stages, bytes);
      ASSERT_TRUE(ranges);
      EXPECT_EQ(ranges->size(), stages);
      ExpectWhole(*ranges, 7);
      EXPECT_EQ(Heaviest(*ranges, bytes), BestByTrying(0, stages, bytes)) << seed;
    }
  }
}

TEST(CutInto, RefusesWhatCannotBe) {
  const Weights bytes = RandomWeights(1, 3);
  EXPECT_FALSE(CutInto(0, bytes));
  EXPECT_FALSE(CutInto(4, bytes));
}

TEST(CutBelow, HoldsTheLimitWithFewestStages) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Weights bytes = RandomWeights(seed, 7);
    for (std::uint32_t stages = 1; stages <= 7; ++stages) {
      const std::uint64_t most = BestByTrying(0, stages, bytes);
      const auto ranges = CutBelow(most, bytes);
      ASSERT_TRUE(ranges);
      ExpectWhole(*ranges, 7);
      EXPECT_LE(Heaviest(*ranges, bytes), most);
      EXPECT_LE(ranges->size(), stages);
    }
  }
}

TEST(CutBelow, TellsTheLayerThatIsTooHeavy) {
  const auto refused = CutBelow(5, {.layers = {1, 2, 9}, .first = 0, .last = 3});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("12 bytes"), std::string::npos) << refused.error().message;
}

}  // namespace
}  // namespace skippy::stage
