// A stage fetches from another process what that keeps of its layers.
#include <gtest/gtest.h>

#include <array>

#include "pipeline/piece.h"
#include "rpc/rpc_testing.h"

namespace skippy::rpc {
namespace {

using pipeline::PieceKey;

constexpr Pos kEnd = 14;
const std::array<std::uint32_t, 2> kMiddle = {1, 2};

// The whole model in one process, which has computed and kept a prefix.
class Pieces : public testing::Test {
 protected:
  void SetUp() override {
    pipeline::LocalLink link(whole_.host);
    ASSERT_TRUE(link.Attach());
    ASSERT_TRUE(link.Decode(std::vector<runtime::RowsItem>{{kLaneA, 0, Embedded(0, kEnd), false}}));
    for (const PieceKey& piece : pieces_) ASSERT_TRUE(link.Keep(kLaneA, piece));
  }
  ServerOptions Options() {
    return {.address = "127.0.0.1:0", .hosts = {&whole_.host}, .pieces = &whole_.store};
  }
  // What enters the first layer.
  std::span<const float> Embedded(Pos begin, Pos end) const {
    const std::size_t width = whole_.runtime.input_width();
    return std::span(embedded_).subspan(begin * width, (end - begin) * width);
  }
  std::vector<Digest> Names() const { return {pieces_[1].name, pieces_[0].name, Digest{}}; }

  Stage whole_{Layers(kModel, 0, 4)};
  const std::vector<float> embedded_ = Rows(kEnd + 1, whole_.runtime.input_width());
  const std::array<PieceKey, 3> pieces_ = {
      PieceKey{pipeline::PieceName({}, std::vector<Token>(8, 3)), Component::kKv, {0, 8}},
      PieceKey{pipeline::PieceName({}, std::vector<Token>(kEnd, 3)), Component::kKv, {8, kEnd}},
      PieceKey{pipeline::PieceName({}, std::vector<Token>(kEnd, 3)), Component::kWindow, {0, kEnd}},
  };
};

TEST_F(Pieces, ArriveAsTheyAreKept) {
  Serving serving(Options());
  const auto source = PiecesAt(serving.address, {});
  ASSERT_TRUE(source);
  const auto there = (*source)->Fetch(Names(), kMiddle);
  ASSERT_TRUE(there) << there.error().message;
  const auto here = whole_.store.Copies(Names(), kMiddle);
  EXPECT_GE(here.size(), 4U);
  ASSERT_EQ(there->size(), here.size());
  for (std::size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ((*there)[i].key, here[i].key);
    EXPECT_EQ((*there)[i].layer, here[i].layer);
    EXPECT_EQ(*(*there)[i].bytes, *here[i].bytes);
  }
  EXPECT_EQ((*source)->Fetch({}, kMiddle)->size(), 0U);
  EXPECT_EQ((*source)->Fetch(Names(), {})->size(), 0U);
}

TEST_F(Pieces, LetAStageOfOtherLayersGoOn) {
  Serving serving(Options());
  const auto source = PiecesAt(serving.address, {});
  ASSERT_TRUE(source);
  Stage middle(Layers(kModel, 1, 3), {source->get()});
  Serving other({&middle.host});
  const auto link = MustAttach(other.address);
  ASSERT_TRUE(link);
  const auto found = link->Find(Names());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->size(), pieces_.size());
  const auto place =
      link->Restore({kLaneB,
                     kEnd,
                     {{pieces_[0], pieces_[0].positions}, {pieces_[1], pieces_[1].positions}},
                     {{pieces_[2], pieces_[2].positions}},
                     std::nullopt});
  ASSERT_TRUE(place) << place.error().message;
  EXPECT_EQ(place->end, kEnd);

  // The same layers without an interruption.
  Stage first(Layers(kModel, 0, 1));
  Stage second(Layers(kModel, 1, 3));
  pipeline::LocalLink a(first.host);
  pipeline::LocalLink b(second.host);
  ASSERT_TRUE(a.Attach() && b.Attach());
  for (const auto& [begin, end] : {std::pair{0U, kEnd}, std::pair{kEnd, kEnd + 1}}) {
    const auto between =
        a.Decode(std::vector<runtime::RowsItem>{{kLaneA, begin, Embedded(begin, end), false}});
    ASSERT_TRUE(between);
    const auto expected =
        b.Decode(std::vector<runtime::RowsItem>{{kLaneA, begin, between->rows, false}});
    ASSERT_TRUE(expected);
    if (begin == 0) continue;
    const auto output =
        link->Decode(std::vector<runtime::RowsItem>{{kLaneB, begin, between->rows, false}});
    ASSERT_TRUE(output) << output.error().message;
    EXPECT_EQ(output->rows, expected->rows);
  }
}

TEST_F(Pieces, AreThereWhileTheirProcessIs) {
  auto serving = std::make_unique<Serving>(Options());
  ServerOptions options = Options();
  options.address = serving->address;
  serving.reset();
  // Nobody has to be there yet.
  const auto source = PiecesAt(options.address, {});
  ASSERT_TRUE(source);
  serving = std::make_unique<Serving>(options);
  EXPECT_FALSE((*source)->Fetch(Names(), kMiddle)->empty());
  serving.reset();
  EXPECT_TRUE(
      IsError((*source)->Fetch(Names(), kMiddle), ErrorCode::kUnavailable, {options.address}));
}

TEST_F(Pieces, NeedTheSecretAndALenderThatHasSome) {
  ServerOptions options = Options();
  options.secret = "s3cret";
  Serving serving(options);
  const auto with = PiecesAt(serving.address, {.secret = "s3cret"});
  const auto without = PiecesAt(serving.address, {});
  ASSERT_TRUE(with && without);
  EXPECT_FALSE((*with)->Fetch(Names(), kMiddle)->empty());
  EXPECT_TRUE(IsError((*without)->Fetch(Names(), kMiddle), ErrorCode::kInvalidArgument,
                      {serving.address, "wrong secret"}));

  Stage other(Layers(kModel, 0, 4));
  Serving keeps_to_itself({&other.host});
  const auto nothing = PiecesAt(keeps_to_itself.address, {});
  ASSERT_TRUE(nothing);
  EXPECT_TRUE((*nothing)->Fetch(Names(), kMiddle)->empty());
}

TEST_F(Pieces, AreAskedForAtAnAddressOfAProcess) {
  for (const char* wrong : {"host", "host:0", "host:1/0..2"})
    EXPECT_TRUE(IsError(PiecesAt(wrong, {}), ErrorCode::kInvalidArgument, {"host"})) << wrong;
}

}  // namespace
}  // namespace skippy::rpc
