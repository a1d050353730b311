#include "pipeline/recall.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

namespace skippy::pipeline {
namespace {

Digest NameOf(Pos end) {
  Digest digest;
  digest.bytes[0] = static_cast<std::uint8_t>(end);
  return digest;
}

PieceKey Piece(Component component, Pos begin, Pos end) {
  return {NameOf(end), component, {begin, end}};
}
PieceKey Kv(Pos begin, Pos end) { return Piece(Component::kKv, begin, end); }
PieceKey Window(Pos begin, Pos end) { return Piece(Component::kWindow, begin, end); }
PieceKey Snapshot(Pos at) { return Piece(Component::kSnapshot, at, at); }

MemoryShape Shape(bool kv, bool window, bool snapshot) {
  MemoryShape shape;
  shape.kv_row_bytes = kv ? 40 : 0;
  shape.window_row_bytes = window ? 40 : 0;
  shape.window_tokens = window ? 5 : 0;
  shape.snapshot_bytes = snapshot ? 40 : 0;
  return shape;
}

// A boundary is there when each of its rows is in some piece, and its snapshot is.
bool IsThere(const MemoryShape& shape, const std::set<PieceKey>& pieces, Pos boundary) {
  const auto covers = [&](Component component, Pos from) {
    for (Pos p = from; p < boundary; ++p)
      if (std::none_of(pieces.begin(), pieces.end(), [&](const PieceKey& piece) {
            return piece.component == component && piece.positions.begin <= p &&
                   p < piece.positions.end;
          }))
        return false;
    return true;
  };
  if (shape.HasKv() && !covers(Component::kKv, 0)) return false;
  if (shape.HasWindow() && !covers(Component::kWindow, shape.WindowBegin(boundary))) return false;
  return !shape.HasSnapshot() || pieces.contains(Snapshot(boundary));
}

void ExpectIsThere(const MemoryShape& shape, const std::set<PieceKey>& pieces,
                   const runtime::Recalled& recalled) {
  const auto check = [&](Component component, Pos from, Pos to) {
    Pos at = from;
    for (const runtime::Recalled::Rows& rows : recalled.rows) {
      if (rows.component != component) continue;
      RC_ASSERT(rows.positions.begin == at);
      RC_ASSERT(!rows.positions.empty());
      const auto key = ReadKey(component, rows.row);
      RC_ASSERT(key.has_value());
      RC_ASSERT(pieces.contains(*key));
      RC_ASSERT(key->positions.begin <= rows.positions.begin);
      RC_ASSERT(key->positions.end >= rows.positions.end);
      at = rows.positions.end;
    }
    RC_ASSERT(at == to);
  };
  const Pos end = recalled.boundary;
  check(Component::kKv, 0, shape.HasKv() ? end : 0);
  const Pos from = shape.WindowBegin(end);
  check(Component::kWindow, shape.HasWindow() ? from : 0, shape.HasWindow() ? end : 0);
  if (!shape.HasSnapshot() || end == 0) {
    RC_ASSERT(recalled.snapshot.empty());
  } else {
    RC_ASSERT(ReadKey(Component::kSnapshot, recalled.snapshot) == Snapshot(end));
  }
}

RC_GTEST_PROP(ChooseRecallProperty, IsTheDeepestBoundaryThatIsThere, ()) {
  const MemoryShape shape =
      Shape(*rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>());
  std::set<PieceKey> pieces;
  // A chain with some links out and some others in.
  Pos at = 0;
  for (const int length : *rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 6))) {
    const Pos end = at + static_cast<Pos>(length);
    const int out = *rc::gen::inRange(0, 12);
    if (out != 0) pieces.insert(Kv(at, end));
    if (out != 1) pieces.insert(Window(at, end));
    if (out > 4) pieces.insert(Snapshot(end));
    at = end;
  }
  for (const auto& [begin, length] : *rc::gen::container<std::vector<std::pair<int, int>>>(
           rc::gen::pair(rc::gen::inRange(0, 30), rc::gen::inRange(1, 9)))) {
    const auto from = static_cast<Pos>(begin);
    pieces.insert(Piece(begin % 2 == 0 ? Component::kKv : Component::kWindow, from,
                        from + static_cast<Pos>(length)));
  }
  const Pos most = *rc::gen::inRange<Pos>(0, 40);
  RC_PRE(shape.HasKv() || shape.HasWindow() || shape.HasSnapshot());
  Pos expected = 0;
  for (Pos boundary = 1; boundary <= most; ++boundary)
    if (IsThere(shape, pieces, boundary)) expected = boundary;
  const runtime::Recalled recalled = ChooseRecall(shape, pieces, most);
  RC_ASSERT(recalled.boundary == expected);
  if (expected > 0) ExpectIsThere(shape, pieces, recalled);
}

TEST(ChooseRecall, NothingGivesNothing) {
  for (int bits = 1; bits < 8; ++bits) {
    const MemoryShape shape = Shape(bits & 1, bits & 2, bits & 4);
    EXPECT_EQ(ChooseRecall(shape, {}, 100).boundary, 0U);
    EXPECT_EQ(ChooseRecall(shape, {Kv(3, 8), Window(3, 8)}, 2).boundary, 0U);
  }
}

TEST(ChooseRecall, AWindowAloneMayEndWithinAPiece) {
  const MemoryShape shape = Shape(false, true, false);
  const std::set<PieceKey> pieces = {Window(0, 8), Window(8, 16)};
  EXPECT_EQ(ChooseRecall(shape, pieces, 11).boundary, 11U);
  EXPECT_EQ(ChooseRecall(shape, {Window(8, 16)}, 16).boundary, 16U);
  EXPECT_EQ(ChooseRecall(shape, {Window(8, 16)}, 12).boundary, 0U);
}

// --- which names are asked for

std::vector<Token> Text(std::size_t length, Token first = 1) {
  std::vector<Token> tokens(length);
  for (std::size_t i = 0; i < length; ++i) tokens[i] = first + static_cast<Token>(i % 7);
  return tokens;
}

// A store that answers by names, and remembers how often it was asked.
struct Known {
  std::multimap<Digest, PieceKey> pieces;
  int asked = 0;

  PieceKey Add(const Namespace& ns, TokenSpan text, Component component, Pos begin, Pos end) {
    const PieceKey key{PieceName(ns, text.first(end)), component, {begin, end}};
    pieces.emplace(key.name, key);
    return key;
  }
  Result<std::set<PieceKey>> operator()(const std::vector<Digest>& names) {
    ++asked;
    std::set<PieceKey> found;
    for (const Digest& name : names)
      for (auto [at, end] = pieces.equal_range(name); at != end; ++at) found.insert(at->second);
    return found;
  }
};

TEST(PiecesOfText, FindsPagesPlacesAndTheEndAndWhatTheyContinue) {
  const Namespace ns{NameOf(9)};
  const std::vector<Token> text = Text(50);
  Known known;
  std::set<PieceKey> expected;
  // Pages of 16; one was cut at 21, where a prompt ended.
  for (const auto& [begin, end] :
       std::vector<std::pair<Pos, Pos>>{{0, 16}, {16, 21}, {21, 32}, {32, 48}, {48, 50}}) {
    expected.insert(known.Add(ns, text, Component::kKv, begin, end));
    expected.insert(known.Add(ns, text, Component::kWindow, begin, end));
  }
  expected.insert(known.Add(ns, text, Component::kSnapshot, 50, 50));
  expected.insert(known.Add(ns, text, Component::kSnapshot, 21, 21));
  // Of others.
  known.Add(Namespace{NameOf(1)}, text, Component::kKv, 0, 16);
  known.Add(ns, Text(50, 2), Component::kKv, 0, 16);
  known.Add(ns, text, Component::kKv, 0, 7);  // nobody knows that a text ended there
  const auto ask = [&](TokenSpan tokens, Pos most, std::vector<Pos> places) {
    const auto found = PiecesOfText({ns, tokens, most, 16, places}, std::ref(known));
    EXPECT_TRUE(found);
    return found ? *found : std::set<PieceKey>{};
  };
  EXPECT_EQ(ask(text, 50, {}), expected);
  EXPECT_LE(known.asked, 3);
  // A longer prompt finds the end of the shorter one only where it is told of it.
  std::vector<Token> longer = text;
  longer.resize(60, 3);
  std::set<PieceKey> pages = expected;
  std::erase_if(pages, [](const PieceKey& piece) { return piece.positions.end == 50; });
  EXPECT_EQ(ask(longer, 59, {}), pages);
  EXPECT_EQ(ask(longer, 59, {50, 999, 0}), expected);
  EXPECT_TRUE(ask(TokenSpan(text).first(5), 5, {}).empty());
  EXPECT_TRUE(ask({}, 0, {}).empty());
}

TEST(PiecesOfText, StrangeAnswersAreLeftOut) {
  const Namespace ns{};
  const std::vector<Token> text = Text(32);
  const PieceKey right{PieceName(ns, TokenSpan(text).first(16)), Component::kKv, {0, 16}};
  const auto answer = [&](const std::vector<Digest>&) -> Result<std::set<PieceKey>> {
    std::set<PieceKey> found = {right};
    PieceKey wrong = right;
    wrong.positions = {0, 17};  // another end than its name's
    found.insert(wrong);
    wrong.positions = {20, 16};
    found.insert(wrong);
    wrong = right;
    wrong.name = NameOf(77);  // not asked for
    found.insert(wrong);
    return found;
  };
  const auto found = PiecesOfText({ns, text, 32, 16, {}}, answer);
  ASSERT_TRUE(found);
  for (const PieceKey& piece : *found) {
    EXPECT_EQ(piece.name, right.name);
    EXPECT_EQ(piece.positions.end, 16U);
  }
  // Nothing is made of a piece that ends before it begins.
  const runtime::Recalled recalled = ChooseRecall(Shape(true, false, false), *found, 32);
  EXPECT_EQ(recalled.boundary, 16U);
}

TEST(PiecesOfText, AnErrorIsHandedOn) {
  const auto away = [](const std::vector<Digest>&) -> Result<std::set<PieceKey>> {
    return Err(ErrorCode::kUnavailable, "away");
  };
  const std::vector<Token> text = Text(32);
  const auto found = PiecesOfText({{}, text, 32, 16, {}}, away);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace skippy::pipeline
