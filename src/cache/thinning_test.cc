#include "cache/thinning.h"

#include <gtest/gtest.h>

#include "cache/cache_testing.h"

namespace skippy::cache {
namespace {

class ThinningTest : public ::testing::Test {
 protected:
  ThinningTest() {
    node_.parent = &root_;
    node_.tokens.assign(1000, 0);
  }
  BlockId NewBlock(Component component) {
    Buffer buffer = *Buffer::Allocate(8);
    ++serial_;
    std::memcpy(buffer.span().data(), &serial_, sizeof(serial_));
    const Digest digest = Blake3(buffer.span());
    const BlockId id = store_.Add(component, std::move(buffer), digest).id;
    store_.Ref(id, node_.slot);
    return id;
  }
  void AddSnapshot(Pos at, std::uint64_t prompt_end = 0, bool part_start = false) {
    Point point;
    point.at = at;
    point.snapshot = NewBlock(Component::kSnapshot);
    point.prompt_end = prompt_end;
    point.part_start = part_start;
    node_.points.push_back(point);
  }
  void AddPromptEnd(Pos at, std::uint64_t prompt_end) {
    Point point;
    point.at = at;
    point.prompt_end = prompt_end;
    node_.points.push_back(point);
  }
  void AddWindow(Pos begin, Pos end) {
    for (Pos p = begin; p < end; p += 10) {
      node_.Rows(Component::kWindow)
          .Insert({{p, p + 10}, NewBlock(Component::kWindow), 0, Provenance::kPrefill},
                  {store_, node_.slot});
    }
  }
  // Takes units until none is left; returns the boundaries or first rows, in order.
  std::vector<Pos> TakeAll(const MemoryShape& shape, std::uint64_t newest = 0,
                           ThinLevel level = ThinLevel::kThin) {
    std::vector<Pos> taken;
    while (const auto unit = ChooseThin(node_, {shape, newest, 0}, store_, level)) {
      if (unit->component == Component::kSnapshot) {
        node_.FindPoint(unit->at)->snapshot.reset();
        taken.push_back(unit->at);
      } else {
        node_.Rows(Component::kWindow).Remove(unit->rows, {store_, node_.slot});
        taken.push_back(unit->rows.begin);
      }
    }
    EXPECT_FALSE(HasThin(node_, {shape, newest, 0}, level));
    return taken;
  }
  static MemoryShape Recurrent() { return {.snapshot_bytes = 8}; }
  static MemoryShape Hybrid() { return {.kv_row_bytes = 8, .snapshot_bytes = 8}; }
  static MemoryShape Window() {
    return {.kv_row_bytes = 8, .window_row_bytes = 8, .window_tokens = 20};
  }

  BlockStore store_{{1 << 20, 0, 0}};
  Node root_;
  Node node_;
  std::uint64_t serial_ = 0;
};

TEST_F(ThinningTest, TheSnapshotThatLeavesTheSmallestGapGoesFirst) {
  for (const Pos p : {100, 200, 250, 300, 600, 1000}) AddSnapshot(p);
  EXPECT_EQ(TakeAll(Recurrent()), (std::vector<Pos>{250, 100, 200, 300, 600}));
}

TEST_F(ThinningTest, APromptEndCountsTwiceAndTheNewestAndTheLastStay) {
  AddSnapshot(100);     // leaves 0..300: 300
  AddSnapshot(300, 1);  // leaves 100..480: 380, twice
  AddSnapshot(480);     // leaves 300..900: 600
  AddSnapshot(900, 2);
  AddSnapshot(1000);
  EXPECT_EQ(TakeAll(Recurrent(), 2), (std::vector<Pos>{100, 480, 300}));
}

TEST_F(ThinningTest, AStepBackIsNotToSpareUntilATextWentOnAtTheEnd) {
  AddSnapshot(200);
  AddSnapshot(400, 0, true);
  AddSnapshot(500);  // for spacing
  AddSnapshot(700, 0, true);
  AddSnapshot(800);
  AddSnapshot(900, 1);  // an older prompt's end
  AddSnapshot(1000);
  EXPECT_EQ(TakeAll(Hybrid(), 0, ThinLevel::kSpare), (std::vector<Pos>{800, 400, 200, 900, 500}));
  node_.continued = true;
  EXPECT_EQ(TakeAll(Hybrid(), 0, ThinLevel::kSpare), std::vector<Pos>{700});
}

TEST_F(ThinningTest, WithoutMessageStartsTheStepBackIsTheSnapshotBeforeTheEnd) {
  AddSnapshot(500);
  AddSnapshot(700);
  AddSnapshot(900, 1);
  AddSnapshot(1000);
  EXPECT_EQ(TakeAll(Hybrid(), 0, ThinLevel::kSpare), (std::vector<Pos>{900, 500}));
}

TEST_F(ThinningTest, ASecondWindowIsNotToSpareUntilATextWentOnAtTheEnd) {
  node_.tokens.assign(100, 0);
  AddWindow(0, 100);
  EXPECT_EQ(TakeAll(Window(), 0, ThinLevel::kSpare), (std::vector<Pos>{0, 10, 20, 30, 40, 50}));
  node_.continued = true;
  EXPECT_EQ(TakeAll(Window(), 0, ThinLevel::kSpare), (std::vector<Pos>{60, 70}));
}

TEST_F(ThinningTest, PinnedSnapshotsStay) {
  for (const Pos p : {100, 500, 1000}) AddSnapshot(p);
  store_.Pin(*node_.FindPoint(100)->snapshot);
  const auto unit = ChooseThin(node_, {Hybrid(), 0, 0}, store_, ThinLevel::kThin);
  ASSERT_TRUE(unit);
  EXPECT_EQ(unit->at, 500U);
}

TEST_F(ThinningTest, LastResortTakesTheDeepestSnapshotLastAndNotWhereItHoldsTheRunUp) {
  for (const Pos p : {100, 500, 1000}) AddSnapshot(p, p);
  EXPECT_EQ(TakeAll(Hybrid(), 500, ThinLevel::kLastResort), (std::vector<Pos>{100, 500, 1000}));
  AddSnapshot(1000);
  node_.points.erase(node_.points.begin(), node_.points.end() - 1);
  EXPECT_EQ(TakeAll(Recurrent(), 0, ThinLevel::kLastResort), std::vector<Pos>{});
}

TEST_F(ThinningTest, TheGapAboveCountsFromTheSnapshotBeforeTheRun) {
  node_.begin = 1000;
  for (const Pos p : {1100, 1400, 1500, 2000}) AddSnapshot(p);
  // Without what lies above, removing 1400 (gap 400) would beat removing 1100 (gap 1400).
  EXPECT_EQ(ChooseThin(node_, {Recurrent(), 0, 0}, store_, ThinLevel::kThin)->at, 1400U);
  EXPECT_EQ(ChooseThin(node_, {Recurrent(), 0, 1050}, store_, ThinLevel::kThin)->at, 1100U);
}

TEST_F(ThinningTest, WindowRowsThatNoKeptBoundaryNeedsGoFirst) {
  node_.tokens.assign(100, 0);
  AddWindow(0, 100);
  AddPromptEnd(50, 1);
  AddPromptEnd(70, 2);
  // Needed: [30, 50) by the first prompt end, [50, 70) by the newest, [80, 100) by the end of the
  // run, [60, 80) one step back. First what none of them needs, then what only an old prompt end
  // needs, then the step back.
  EXPECT_EQ(TakeAll(Window(), 2), (std::vector<Pos>{0, 10, 20, 30, 40, 70}));
  EXPECT_EQ(node_.Rows(Component::kWindow).rows(), 40U);
  EXPECT_EQ(TakeAll(Window(), 2, ThinLevel::kLastResort), (std::vector<Pos>{50, 60, 80, 90}));
}

TEST_F(ThinningTest, WindowRowsBeforeASnapshotStayWithIt) {
  node_.tokens.assign(100, 0);
  MemoryShape shape = Window();
  shape.snapshot_bytes = 8;
  AddWindow(0, 100);
  AddSnapshot(50);
  AddSnapshot(100);
  // Rows that no snapshot needs, then the plain snapshot, then the rows that it needed.
  EXPECT_EQ(TakeAll(shape), (std::vector<Pos>{0, 10, 20, 50, 60, 70, 50, 30, 40}));
}

}  // namespace
}  // namespace skippy::cache
