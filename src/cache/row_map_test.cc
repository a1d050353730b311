#include "cache/row_map.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "cache/cache_testing.h"

namespace skippy::cache {
namespace {

constexpr NamespaceSlot kSlot{0};

class RowMapTest : public ::testing::Test {
 protected:
  BlockId NewBlock(int value) {
    Buffer buffer = *Buffer::Allocate(8);
    std::fill(buffer.span().begin(), buffer.span().end(), std::byte(value));
    const Digest digest = Blake3(buffer.span());
    return store_.Add(Component::kKv, std::move(buffer), digest).id;
  }
  Extent Rows(Pos begin, Pos end, int value, Provenance p = Provenance::kPrefill) {
    return {{begin, end}, NewBlock(value), 0, p};
  }
  BlockStore store_{{1000, 0, 0}};
  RefAccount account_{store_, kSlot};
  RowMap map_;
};

TEST_F(RowMapTest, MissingRangesAreReportedInOrderAndJoined) {
  map_.Insert(Rows(4, 8, 1), account_);
  map_.Insert(Rows(12, 16, 2, Provenance::kDecode), account_);
  std::vector<PosRange> missing;
  map_.AppendMissing({0, 20}, Provenance::kDecode, missing);
  EXPECT_EQ(missing, (std::vector<PosRange>{{0, 4}, {8, 12}, {16, 20}}));
  missing.clear();
  map_.AppendMissing({5, 15}, Provenance::kPrefill, missing);
  EXPECT_EQ(missing, (std::vector<PosRange>{{8, 15}}));  // weak rows count as missing
}

TEST_F(RowMapTest, CuttingAnExtentInTwoKeepsItsBlockAlive) {
  map_.Insert(Rows(0, 8, 1), account_);
  map_.Remove({3, 5}, account_);
  ASSERT_EQ(map_.extents().size(), 2U);
  EXPECT_EQ(map_.extents()[1].first_row, 5U);
  EXPECT_EQ(map_.rows(), 6U);
  map_.Remove({0, 3}, account_);
  EXPECT_EQ(store_.block_count(), 1U);
  map_.Remove({5, 8}, account_);
  EXPECT_EQ(store_.block_count(), 0U);
}

TEST_F(RowMapTest, SplittingAndAppendingIsTheIdentity) {
  map_.Insert(Rows(0, 8, 1), account_);
  map_.Insert(Rows(8, 12, 2), account_);
  for (const Pos at : {1U, 7U, 8U, 9U}) {
    RowMap before = map_.SplitBefore(at, account_);
    EXPECT_EQ(before.rows(), at);
    EXPECT_EQ(map_.rows(), 12U - at);
    before.Append(std::move(map_), account_);
    map_ = std::move(before);
    ASSERT_EQ(map_.extents().size(), 2U);
    EXPECT_EQ(map_.extents()[0].range, (PosRange{0, 8}));
    EXPECT_EQ(store_.blocks()[map_.extents()[0].block.value].refs, 1U);
  }
}

TEST_F(RowMapTest, CondemnedBlocksAreDropped) {
  map_.Insert(Rows(0, 4, 1), account_);
  map_.Insert(Rows(4, 8, 2), account_);
  EXPECT_FALSE(map_.RemoveCondemned(account_));
  store_.Condemn(map_.extents()[0].block);
  EXPECT_TRUE(map_.RemoveCondemned(account_));
  EXPECT_EQ(map_.rows(), 4U);
  EXPECT_EQ(store_.block_count(), 1U);
}

// Each position maps to (block, row) exactly as in a plain map, and references add up.
RC_GTEST_PROP(RowMapProperty, BehavesLikeAMapOfPositions, ()) {
  BlockStore store({1 << 20, 0, 0});
  const RefAccount account{store, kSlot};
  RowMap map;
  std::map<Pos, std::pair<std::uint32_t, std::uint32_t>> model;
  using Op = std::tuple<bool, Pos, Pos>;
  const auto ops = *rc::gen::container<std::vector<Op>>(rc::gen::tuple(
      rc::gen::arbitrary<bool>(), rc::gen::inRange<Pos>(0, 40), rc::gen::inRange<Pos>(1, 12)));
  std::uint64_t serial = 0;
  for (const auto& [insert, begin, length] : ops) {
    const PosRange range{begin, begin + length};
    map.Remove(range, account);
    for (Pos p = range.begin; p < range.end; ++p) model.erase(p);
    if (insert) {
      Buffer buffer = *Buffer::Allocate(sizeof(serial));
      ++serial;
      std::memcpy(buffer.span().data(), &serial, sizeof(serial));
      const Digest digest = Blake3(buffer.span());
      const BlockId block = store.Add(Component::kKv, std::move(buffer), digest).id;
      map.Insert({range, block, 3, Provenance::kPrefill}, account);
      for (Pos p = range.begin; p < range.end; ++p) model[p] = {block.value, 3 + p - range.begin};
    } else if (!map.empty()) {
      RowMap before = map.SplitBefore(begin, account);
      before.Append(std::move(map), account);
      map = std::move(before);
    }
    std::map<Pos, std::pair<std::uint32_t, std::uint32_t>> seen;
    std::map<std::uint32_t, std::uint32_t> refs;
    for (const Extent& e : map.extents()) {
      ++refs[e.block.value];
      for (Pos p = e.range.begin; p < e.range.end; ++p) {
        RC_ASSERT(
            seen.emplace(p, std::pair{e.block.value, e.first_row + p - e.range.begin}).second);
      }
    }
    RC_ASSERT(seen == model);
    RC_ASSERT(map.rows() == model.size());
    for (const auto& [block, count] : refs) RC_ASSERT(store.blocks()[block].refs == count);
    RC_ASSERT(store.block_count() == refs.size());
    std::vector<PosRange> missing;
    map.AppendMissing({0, 60}, Provenance::kDecode, missing);
    std::size_t missing_count = 0;
    for (const PosRange& r : missing) missing_count += r.size();
    RC_ASSERT(missing_count == 60 - model.size());
  }
}

}  // namespace
}  // namespace skippy::cache
