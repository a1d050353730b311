// What a stage lacks it takes from other processes (the model was cut another way before).
#include <gtest/gtest.h>

#include "pipeline/piece_source.h"
#include "pipeline/stage_host.h"
#include "pipeline/stage_host_testing.h"

namespace skippy::pipeline {
namespace {

using enum runtime::fake::ShapeKind;

std::vector<Digest> NamesOf(const std::vector<PieceKey>& pieces) {
  std::vector<Digest> names;
  for (const PieceKey& piece : pieces) names.push_back(piece.name);
  return names;
}

std::set<PieceKey> SetOf(const std::vector<PieceKey>& pieces) {
  return {pieces.begin(), pieces.end()};
}

// A stage of a model, and what it keeps.
struct Stage {
  Stage(FakeStageOptions options, std::uint32_t begin, std::uint32_t end,
        std::vector<PieceSource*> peers = {})
      : stage([&] {
          options.begin = begin;
          options.end = end;
          return options;
        }()),
        host(
            [&] {
              options.begin = begin;
              options.end = end;
              return PackageOf(options);
            }(),
            stage, store, std::move(peers)),
        session(host),
        source(store) {}

  PieceStore store{1 << 20};
  FakeStage stage;
  StageHost host;
  Session session;
  StoreSource source;
};

class Away final : public PieceSource {
 public:
  Result<std::vector<StoredLayer>> Fetch(std::span<const Digest>,
                                         std::span<const std::uint32_t>) override {
    ++asked;
    return Err(ErrorCode::kUnavailable, "away");
  }
  int asked = 0;
};

class StageHostPeers : public testing::Test {
 protected:
  StageHostPeers() {
    options_.model = {kAttention, kWindow, kRecurrent, kMla};
    rows_ = RowsOf(options_, tokens_);
  }
  // Rows of the first three layers' output enter the last stage.
  FakeStageOptions options_;
  const std::vector<Token> tokens_ = SomeTokens(30);
  std::vector<float> rows_;
};

TEST_F(StageHostPeers, FindGivesThePiecesOfNamesThatCouldBeRestored) {
  Stage stage(options_, 0, 3);
  stage.session.Evaluate(kLaneA, 0, rows_);
  stage.session.KeepAll(kLaneA, tokens_);
  const std::vector<PieceKey> pieces = PiecesOf(stage.session.shape(), tokens_);
  std::vector<Digest> names = NamesOf(pieces);
  names.push_back(DigestOf("unknown"));
  EXPECT_EQ(SetOf(*stage.session.link.Find(names)), SetOf(pieces));
  EXPECT_TRUE(stage.session.link.Find({})->empty());
  for (const PieceKey& lost : pieces) {
    stage.store.Drop(lost);
    EXPECT_FALSE(SetOf(*stage.session.link.Find({&lost.name, 1})).contains(lost));
  }
  EXPECT_TRUE(stage.session.link.Find(names)->empty());
}

TEST_F(StageHostPeers, LayersThatMovedAreTakenFromWhoeverHasThem) {
  // [0, 1) and [1, 3) before, [0, 3) now.
  Stage first(options_, 0, 1);
  Stage second(options_, 1, 3);
  const std::vector<float> between = first.session.Evaluate(kLaneA, 0, rows_);
  const std::vector<float> out = second.session.Evaluate(kLaneA, 0, between);
  first.session.KeepAll(kLaneA, tokens_);
  second.session.KeepAll(kLaneA, tokens_);
  Away away;
  Stage now(options_, 0, 3, {&away, &first.source, &second.source});
  const std::vector<PieceKey> pieces = PiecesOf(now.session.shape(), tokens_);
  EXPECT_EQ(*now.session.link.Held(pieces), std::vector<bool>(pieces.size(), false));
  EXPECT_EQ(SetOf(*now.session.link.Find(NamesOf(pieces))), SetOf(pieces));
  EXPECT_EQ(away.asked, 1);
  EXPECT_EQ(*now.session.link.Held(pieces), std::vector<bool>(pieces.size(), true));
  // What is there is not fetched again, nor what is not known.
  ASSERT_TRUE(now.session.link.Find(NamesOf(pieces)));
  EXPECT_EQ(away.asked, 1);
  const auto place = now.session.link.Restore(RestoreOf(kLaneB, now.session.shape(), tokens_));
  ASSERT_TRUE(place) << place.error().message;
  const std::vector<float> next = RowsOf(options_, std::vector<Token>{3});
  const std::vector<float> expected =
      second.session.Evaluate(kLaneA, 30, first.session.Evaluate(kLaneA, 30, next));
  EXPECT_EQ(now.session.Evaluate(kLaneB, 30, next), expected);
}

TEST_F(StageHostPeers, WhatNobodyHasIsNotThere) {
  Stage first(options_, 0, 1);
  first.session.Evaluate(kLaneA, 0, rows_);
  first.session.KeepAll(kLaneA, tokens_);
  Stage now(options_, 0, 3, {&first.source});
  const std::vector<PieceKey> pieces = PiecesOf(now.session.shape(), tokens_);
  EXPECT_TRUE(now.session.link.Find(NamesOf(pieces))->empty());
  EXPECT_EQ(*now.session.link.Held(pieces), std::vector<bool>(pieces.size(), false));
}

TEST_F(StageHostPeers, AStoreThatCannotTakeItAllStaysWithinItsCap) {
  Stage before(options_, 0, 3);
  before.session.Evaluate(kLaneA, 0, rows_);
  before.session.KeepAll(kLaneA, tokens_);
  const std::vector<PieceKey> pieces = PiecesOf(before.session.shape(), tokens_);
  for (const std::uint64_t bytes : {0U, 50U, 500U, 900U}) {
    FakeStageOptions own = options_;
    own.end = 3;
    FakeStage stage(own);
    PieceStore store(bytes);
    StageHost host(PackageOf(own), stage, store, {&before.source});
    Session session(host);
    const auto found = session.link.Find(NamesOf(pieces));
    ASSERT_TRUE(found);
    EXPECT_LE(store.bytes(), bytes);
    for (const PieceKey& piece : *found)
      EXPECT_EQ(*session.link.Held({&piece, 1}), std::vector<bool>{true});
  }
}

}  // namespace
}  // namespace skippy::pipeline
