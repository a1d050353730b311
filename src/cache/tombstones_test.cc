#include "cache/tombstones.h"

#include <gtest/gtest.h>

#include "cache/cache_testing.h"

namespace skippy::cache {
namespace {

Digest Key(std::uint64_t seed) { return Tombstones::KeyOf(Namespace{}, MakeTokens(5, seed)); }

TEST(TombstonesTest, KeysOfPiecesAndOfTheWholeAreTheSame) {
  const Tokens tokens = MakeTokens(20, 1);
  Tombstones::KeyBuilder builder{Namespace{}};
  builder.Append(TokenSpan(tokens).first(7));
  builder.Append(TokenSpan(tokens).subspan(7));
  EXPECT_EQ(builder.Finish(), Tombstones::KeyOf(Namespace{}, tokens));
}

TEST(TombstonesTest, NamespacesHaveDifferentKeys) {
  const Tokens tokens = MakeTokens(20, 1);
  EXPECT_NE(Tombstones::KeyOf(Namespace{}, tokens),
            Tombstones::KeyOf(Namespace{Blake3({})}, tokens));
}

TEST(TombstonesTest, TheOldestIsForgottenFirst) {
  Tombstones tombstones(2);
  for (std::uint64_t i = 0; i < 3; ++i) tombstones.Add(Key(i), MissReason::kEvicted);
  EXPECT_EQ(tombstones.size(), 2U);
  EXPECT_FALSE(tombstones.Find(Key(0)));
  EXPECT_EQ(tombstones.Find(Key(1)), MissReason::kEvicted);
  EXPECT_EQ(tombstones.Find(Key(2)), MissReason::kEvicted);
}

TEST(TombstonesTest, WithoutCapacityNothingIsRemembered) {
  Tombstones tombstones(0);
  tombstones.Add(Key(1), MissReason::kEvicted);
  EXPECT_TRUE(tombstones.empty());
}

}  // namespace
}  // namespace skippy::cache
