// The oracle has teeth: a right restore changes nothing, and each kind of wrong restore changes the
// logits. In every memory shape; a mutation that a shape has no state for is not generated for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "runtime/fake/fake_runtime.h"
#include "runtime/fake/fake_testing.h"

namespace skippy::runtime::fake {
namespace {

constexpr Pos kPage = 8;
constexpr Pos kBoundary = 61;  // neither on a page nor on the grid
constexpr Pos kEnd = 75;

FakeOptions Options(ShapeKind shape) {
  FakeOptions options;
  options.shape = shape;
  return options;
}

std::string ShapeTestName(const testing::TestParamInfo<ShapeKind>& shape) {
  return std::string(ShapeKindName(shape.param));
}

class FakeRestore : public testing::TestWithParam<ShapeKind> {
 protected:
  FakeRestore() : runtime_(Options(GetParam())), tokens_(SomeTokens(kEnd)) {
    expected_ = Evaluate(runtime_, kLaneA, tokens_);
    runtime_.Clear(kLaneA);
    Evaluate(runtime_, kLaneA, TokenSpan(tokens_).first(kBoundary));
    saved_ = Save(runtime_, kLaneA, tokens_, kPage);
  }

  std::vector<float> LogitsAfterRestoring(const SavedBoundary& saved) {
    EXPECT_TRUE(Restore(runtime_, kLaneB, saved));
    return Evaluate(runtime_, kLaneB, tokens_);
  }

  FakeRuntime runtime_;
  const std::vector<Token> tokens_;
  std::vector<float> expected_;
  SavedBoundary saved_;
};

TEST_P(FakeRestore, ARightRestoreIsTheColdRun) {
  EXPECT_EQ(LogitsAfterRestoring(saved_), expected_);
}

TEST_P(FakeRestore, AnyFlippedBitShows) {
  const auto flip_everywhere = [&](auto select) {
    for (std::size_t i = 0; i < select(saved_).size(); ++i) {
      SavedBoundary broken = saved_;
      select(broken)[i].bytes[i % select(broken)[i].bytes.size()] ^= std::byte{0x10};
      EXPECT_NE(LogitsAfterRestoring(broken), expected_) << "page " << i;
    }
  };
  flip_everywhere([](SavedBoundary& b) -> std::vector<SavedBoundary::Page>& { return b.kv; });
  flip_everywhere([](SavedBoundary& b) -> std::vector<SavedBoundary::Page>& { return b.window; });
  for (std::size_t i = 0; i < saved_.snapshot.size(); ++i) {
    SavedBoundary broken = saved_;
    broken.snapshot[i] ^= std::byte{0x01};
    EXPECT_NE(LogitsAfterRestoring(broken), expected_) << "snapshot byte " << i;
  }
}

TEST_P(FakeRestore, SwappedPagesShow) {
  const auto swap_pages = [&](std::vector<SavedBoundary::Page> SavedBoundary::*pages) {
    SavedBoundary broken = saved_;
    std::vector<SavedBoundary::Page>& list = broken.*pages;
    if (list.size() < 3) return;
    std::swap(list[list.size() - 3].bytes, list[list.size() - 2].bytes);
    EXPECT_NE(LogitsAfterRestoring(broken), expected_);
  };
  swap_pages(&SavedBoundary::kv);
  swap_pages(&SavedBoundary::window);
}

TEST_P(FakeRestore, AShiftByOnePositionShows) {
  // The state after kBoundary + 1 tokens, filed as that of kBoundary: every row one position too
  // low.
  Evaluate(runtime_, kLaneA, TokenSpan(tokens_).first(kBoundary + 1));
  SavedBoundary shifted = Save(runtime_, kLaneA, tokens_, 1);
  const auto shift = [](std::vector<SavedBoundary::Page>& pages) {
    for (SavedBoundary::Page& page : pages) {
      if (page.positions.begin > 0)
        page.positions = {page.positions.begin - 1, page.positions.end - 1};
      else
        page.bytes.clear();
    }
    std::erase_if(pages, [](const SavedBoundary::Page& page) { return page.bytes.empty(); });
  };
  shift(shifted.kv);
  shift(shifted.window);
  shifted.end = kBoundary;
  shifted.tokens.pop_back();
  EXPECT_NE(LogitsAfterRestoring(shifted), expected_);
}

TEST_P(FakeRestore, AMissingPartIsRefused) {
  const auto refused = [&](const SavedBoundary& broken) {
    const bool ok = Restore(runtime_, kLaneB, broken).has_value();
    return !ok && runtime_.End(kLaneB) == 0;
  };
  SavedBoundary broken = saved_;
  if (!broken.kv.empty()) {
    broken.kv.erase(broken.kv.begin() + 2);
    EXPECT_TRUE(refused(broken));
  }
  broken = saved_;
  if (!broken.window.empty()) {
    broken.window.erase(broken.window.begin());
    EXPECT_TRUE(refused(broken));
  }
  broken = saved_;
  if (!broken.snapshot.empty()) {
    broken.snapshot.pop_back();
    EXPECT_TRUE(refused(broken));
  }
  broken = saved_;
  broken.tokens.pop_back();
  EXPECT_TRUE(refused(broken));
}

INSTANTIATE_TEST_SUITE_P(Shapes, FakeRestore,
                         testing::Values(ShapeKind::kAttention, ShapeKind::kMla, ShapeKind::kWindow,
                                         ShapeKind::kWindowOnly, ShapeKind::kRecurrent,
                                         ShapeKind::kHybrid, ShapeKind::kHybridWindow),
                         ShapeTestName);

class FakeWindowRestore : public testing::TestWithParam<ShapeKind> {};

TEST_P(FakeWindowRestore, AnySingleWrongWindowRowShows) {
  FakeRuntime runtime(Options(GetParam()));
  const std::vector<Token> tokens = SomeTokens(kEnd);
  const std::vector<float> expected = Evaluate(runtime, kLaneA, tokens);
  runtime.Clear(kLaneA);
  Evaluate(runtime, kLaneA, TokenSpan(tokens).first(kBoundary));
  const SavedBoundary saved = Save(runtime, kLaneA, tokens, 1);
  ASSERT_EQ(saved.window.size(), 24U);
  for (std::size_t i = 0; i < saved.window.size(); ++i) {
    SavedBoundary broken = saved;
    std::fill(broken.window[i].bytes.begin(), broken.window[i].bytes.end(), std::byte{0});
    ASSERT_TRUE(Restore(runtime, kLaneB, broken));
    EXPECT_NE(Evaluate(runtime, kLaneB, tokens), expected) << "window row " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, FakeWindowRestore,
                         testing::Values(ShapeKind::kWindow, ShapeKind::kWindowOnly,
                                         ShapeKind::kHybridWindow),
                         ShapeTestName);

class FakeSnapshotRestore : public testing::TestWithParam<ShapeKind> {};

TEST_P(FakeSnapshotRestore, AStaleSnapshotShows) {
  FakeRuntime runtime(Options(GetParam()));
  const std::vector<Token> tokens = SomeTokens(kEnd);
  const std::vector<float> expected = Evaluate(runtime, kLaneA, tokens);
  runtime.Clear(kLaneA);
  Evaluate(runtime, kLaneA, TokenSpan(tokens).first(kBoundary - 1));
  const SavedBoundary stale = Save(runtime, kLaneA, tokens, kPage);
  Evaluate(runtime, kLaneA, TokenSpan(tokens).first(kBoundary));
  SavedBoundary saved = Save(runtime, kLaneA, tokens, kPage);
  saved.snapshot = stale.snapshot;
  ASSERT_TRUE(Restore(runtime, kLaneB, saved));
  EXPECT_NE(Evaluate(runtime, kLaneB, tokens), expected);
}

TEST_P(FakeSnapshotRestore, ALargeSnapshotRestoresAndEachOfItsBytesCounts) {
  FakeOptions options = Options(GetParam());
  options.snapshot_bytes = 300;
  FakeRuntime runtime(options);
  EXPECT_EQ(runtime.info().shape.snapshot_bytes, 300U);
  const std::vector<Token> tokens = SomeTokens(kEnd);
  const std::vector<float> expected = Evaluate(runtime, kLaneA, tokens);
  runtime.Clear(kLaneA);
  Evaluate(runtime, kLaneA, TokenSpan(tokens).first(kBoundary));
  const SavedBoundary saved = Save(runtime, kLaneA, tokens, kPage);
  ASSERT_TRUE(Restore(runtime, kLaneB, saved));
  EXPECT_EQ(Evaluate(runtime, kLaneB, tokens), expected);
  for (std::size_t i = 0; i < saved.snapshot.size(); ++i) {
    SavedBoundary broken = saved;
    broken.snapshot[i] ^= std::byte{0x01};
    ASSERT_TRUE(Restore(runtime, kLaneB, broken));
    EXPECT_NE(Evaluate(runtime, kLaneB, tokens), expected) << "byte " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, FakeSnapshotRestore,
                         testing::Values(ShapeKind::kRecurrent, ShapeKind::kHybrid,
                                         ShapeKind::kHybridWindow),
                         ShapeTestName);

}  // namespace
}  // namespace skippy::runtime::fake
