#include "skippy/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace skippy {
namespace {

TEST(RandomBits, NoValueComesTwiceOnAnyThread) {
  constexpr std::size_t kEach = 20'000;
  std::vector<std::vector<std::uint64_t>> drawn(4);
  std::vector<std::thread> threads;
  for (auto& mine : drawn)
    threads.emplace_back([&mine] {
      for (std::size_t i = 0; i < kEach; ++i) mine.push_back(RandomBits());
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<std::uint64_t> all;
  for (const auto& mine : drawn) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

TEST(RandomBits, EveryBitIsSometimesSetAndSometimesNot) {
  std::uint64_t ever = 0;
  std::uint64_t always = ~std::uint64_t{0};
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t bits = RandomBits();
    ever |= bits;
    always &= bits;
  }
  EXPECT_EQ(ever, ~std::uint64_t{0});
  EXPECT_EQ(always, 0U);
}

}  // namespace
}  // namespace skippy
