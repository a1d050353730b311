#include "pipeline/piece_store.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <thread>

namespace skippy::pipeline {
namespace {

PieceKey Key(std::uint8_t name, Pos end, Component component = Component::kKv) {
  PieceKey key;
  key.name.bytes[0] = name;
  key.component = component;
  key.positions = {component == Component::kSnapshot ? end : end - 1, end};
  return key;
}

LayerBytes Bytes(std::size_t count, std::uint8_t value = 1) {
  return std::make_shared<const std::vector<std::byte>>(count, std::byte{value});
}

using Layers = std::vector<std::pair<std::uint32_t, LayerBytes>>;
const std::vector<std::uint32_t> kLayer0 = {0};

Status PutOne(PieceStore& store, const PieceKey& key, std::size_t bytes, std::uint8_t value = 1) {
  return store.Put(key, Layers{{0, Bytes(bytes, value)}});
}

bool Has(const PieceStore& store, const PieceKey& key) { return store.Has(key, kLayer0); }

TEST(PieceStore, GivesBackTheLayersThatAreThere) {
  PieceStore store(100);
  ASSERT_TRUE(store.Put(Key(1, 8), Layers{{3, Bytes(5, 3)}, {4, Bytes(6, 4)}}));
  ASSERT_TRUE(store.Put(Key(1, 8), Layers{{7, Bytes(7, 7)}}));
  EXPECT_EQ(store.bytes(), 18U);
  EXPECT_EQ(store.pieces(), 1U);
  const std::vector<std::uint32_t> wanted = {2, 3, 5, 7};
  const auto found = store.Find(Key(1, 8), wanted);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].first, 3U);
  EXPECT_EQ(*found[0].second, std::vector<std::byte>(5, std::byte{3}));
  EXPECT_EQ(found[1].first, 7U);
  EXPECT_EQ(*found[1].second, std::vector<std::byte>(7, std::byte{7}));
  EXPECT_FALSE(store.Has(Key(1, 8), wanted));
  const std::vector<std::uint32_t> there = {3, 4, 7};
  EXPECT_TRUE(store.Has(Key(1, 8), there));
}

TEST(PieceStore, TellsPiecesApartByNameComponentAndPositions) {
  PieceStore store(100);
  const PieceKey key = Key(1, 8);
  ASSERT_TRUE(PutOne(store, key, 5));
  PieceKey other = key;
  other.positions.begin = 0;
  EXPECT_FALSE(Has(store, other));
  EXPECT_TRUE(store.Find(other, kLayer0).empty());
  other = key;
  other.component = Component::kWindow;
  EXPECT_FALSE(Has(store, other));
  EXPECT_FALSE(Has(store, Key(2, 8)));
  store.Drop(other);
  EXPECT_TRUE(Has(store, key));
  store.Drop(key);
  EXPECT_FALSE(Has(store, key));
  EXPECT_EQ(store.bytes(), 0U);
  EXPECT_EQ(store.pieces(), 0U);
}

TEST(PieceStore, ReplacesALayerAndCountsWhatIsThereNow) {
  PieceStore store(100);
  ASSERT_TRUE(store.Put(Key(1, 8), Layers{{0, Bytes(60, 1)}, {1, Bytes(10, 1)}}));
  ASSERT_TRUE(PutOne(store, Key(1, 8), 80, 2));
  EXPECT_EQ(store.bytes(), 90U);
  EXPECT_EQ(store.Find(Key(1, 8), kLayer0)[0].second->front(), std::byte{2});
  ASSERT_TRUE(PutOne(store, Key(1, 8), 1, 3));
  EXPECT_EQ(store.bytes(), 11U);
}

TEST(PieceStore, RefusesWhatIsLargerThanTheCapAloneAndLeavesTheRest) {
  PieceStore store(100);
  ASSERT_TRUE(PutOne(store, Key(1, 8), 100));  // the cap itself fits
  ASSERT_TRUE(PutOne(store, Key(2, 8), 60));
  EXPECT_FALSE(Has(store, Key(1, 8)));
  const Status too_large = PutOne(store, Key(3, 8), 101);
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(too_large.error().message.find("101"), std::string::npos) << too_large.error().message;
  EXPECT_NE(too_large.error().message.find("100"), std::string::npos);
  // Together with the layers that are there already it is too large: those stay.
  EXPECT_FALSE(store.Put(Key(2, 8), Layers{{1, Bytes(41)}}));
  EXPECT_TRUE(Has(store, Key(2, 8)));
  EXPECT_EQ(store.bytes(), 60U);
  EXPECT_EQ(store.pieces(), 1U);
}

TEST(PieceStore, AStoreOfNothingHoldsNothing) {
  PieceStore store(0);
  EXPECT_FALSE(PutOne(store, Key(1, 8), 1));
  EXPECT_EQ(store.pieces(), 0U);
}

TEST(PieceStore, WhatWasUsedLongestAgoGoesFirst) {
  PieceStore store(30);
  for (std::uint8_t name = 1; name <= 3; ++name) {
    store.NextMoment();
    ASSERT_TRUE(PutOne(store, Key(name, 8), 10));
  }
  store.NextMoment();
  EXPECT_EQ(store.Find(Key(1, 8), kLayer0).size(), 1U);
  EXPECT_TRUE(Has(store, Key(2, 8)));  // no use
  store.NextMoment();
  ASSERT_TRUE(PutOne(store, Key(4, 8), 10));
  EXPECT_FALSE(Has(store, Key(2, 8)));
  store.NextMoment();
  ASSERT_TRUE(PutOne(store, Key(5, 8), 20));
  EXPECT_FALSE(Has(store, Key(3, 8)));
  EXPECT_FALSE(Has(store, Key(1, 8)));
  EXPECT_TRUE(Has(store, Key(4, 8)));
}

TEST(PieceStore, OfOneMomentTheEndOfATextGoesFirst) {
  PieceStore store(40);
  for (const Pos end : {8U, 32U, 24U, 16U}) ASSERT_TRUE(PutOne(store, Key(1, end), 10));
  ASSERT_TRUE(PutOne(store, Key(2, 4), 10));
  EXPECT_FALSE(Has(store, Key(1, 32)));
  // Found out of order, at one moment.
  store.NextMoment();
  for (const Pos end : {24U, 8U, 16U}) store.Find(Key(1, end), kLayer0);
  store.NextMoment();
  ASSERT_TRUE(PutOne(store, Key(3, 4), 20));  // the older piece, and the end of the text
  EXPECT_FALSE(Has(store, Key(2, 4)));
  EXPECT_FALSE(Has(store, Key(1, 24)));
  EXPECT_TRUE(Has(store, Key(1, 16)));
  EXPECT_TRUE(Has(store, Key(1, 8)));
}

TEST(PieceStore, APieceThatGrowsIsNotEvictedForItself) {
  PieceStore store(30);
  ASSERT_TRUE(PutOne(store, Key(1, 8), 10));
  store.NextMoment();
  ASSERT_TRUE(PutOne(store, Key(2, 8), 20));
  store.NextMoment();
  ASSERT_TRUE(store.Put(Key(1, 8), Layers{{1, Bytes(10)}}));
  EXPECT_TRUE(Has(store, Key(1, 8)));
  EXPECT_FALSE(Has(store, Key(2, 8)));
  EXPECT_EQ(store.bytes(), 20U);
}

TEST(PieceStore, WhatWasFoundLivesOnWhileItIsHeld) {
  PieceStore store(10);
  ASSERT_TRUE(PutOne(store, Key(1, 8), 10, 9));
  const auto found = store.Find(Key(1, 8), kLayer0);
  store.NextMoment();
  ASSERT_TRUE(PutOne(store, Key(2, 8), 10));
  EXPECT_FALSE(Has(store, Key(1, 8)));
  EXPECT_EQ(*found[0].second, std::vector<std::byte>(10, std::byte{9}));
}

TEST(PieceStore, TouchingIsAUseOfWhatIsThere) {
  PieceStore store(20);
  ASSERT_TRUE(PutOne(store, Key(1, 8), 10));
  ASSERT_TRUE(PutOne(store, Key(2, 8), 10));
  const std::uint64_t moment = store.NextMoment();
  EXPECT_EQ(moment, store.moment());
  store.Touch({Key(1, 8), Key(3, 8)});
  EXPECT_FALSE(Has(store, Key(3, 8)));
  ASSERT_TRUE(PutOne(store, Key(4, 9), 10));
  EXPECT_TRUE(Has(store, Key(1, 8)));
  EXPECT_FALSE(Has(store, Key(2, 8)));
}

TEST(PieceStore, ListsAndCopiesByName) {
  PieceStore store(100);
  ASSERT_TRUE(store.Put(Key(1, 8), Layers{{3, Bytes(5, 3)}, {4, Bytes(6, 4)}}));
  ASSERT_TRUE(store.Put(Key(1, 8, Component::kSnapshot), Layers{{5, Bytes(7, 5)}}));
  ASSERT_TRUE(PutOne(store, Key(2, 8), 10));
  EXPECT_EQ(store.KeysOf(Key(1, 8).name),
            (std::vector<PieceKey>{Key(1, 8), Key(1, 8, Component::kSnapshot)}));
  EXPECT_TRUE(store.KeysOf(Key(3, 8).name).empty());
  const std::vector<Digest> names = {Key(1, 8).name, Key(3, 8).name};
  const std::vector<std::uint32_t> layers = {4, 5, 6};
  const std::vector<StoredLayer> copies = store.Copies(names, layers);
  ASSERT_EQ(copies.size(), 2U);
  EXPECT_EQ(copies[0].key, Key(1, 8));
  EXPECT_EQ(copies[0].layer, 4U);
  EXPECT_EQ(copies[0].bytes->size(), 6U);
  EXPECT_EQ(copies[1].key, Key(1, 8, Component::kSnapshot));
  EXPECT_EQ(copies[1].layer, 5U);
}

TEST(PieceStore, ThreadsMayUseItAtOnce) {
  PieceStore store(500);
  std::vector<std::thread> threads;
  for (std::uint8_t thread = 0; thread < 3; ++thread)
    threads.emplace_back([&store, thread] {
      for (Pos i = 1; i <= 300; ++i) {
        store.NextMoment();
        EXPECT_TRUE(PutOne(store, Key(static_cast<std::uint8_t>(i % 7), i % 30 + 1), 40, thread));
        for (const auto& [layer, bytes] :
             store.Find(Key(static_cast<std::uint8_t>(i % 5), 3), kLayer0))
          EXPECT_EQ(bytes->front(), bytes->back());
        EXPECT_LE(store.bytes(), 500U);
        if (i % 11 == 0) store.Drop(Key(static_cast<std::uint8_t>(i % 7), 3));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

// A plain model: a list of pieces, searched through for whatever is asked.
struct Model {
  struct Piece {
    PieceKey key;
    std::map<std::uint32_t, std::size_t> layers;
    std::uint64_t used = 0;
  };
  std::uint64_t cap = 0;
  std::uint64_t moment = 0;
  std::vector<Piece> pieces;

  Piece* Find(const PieceKey& key) {
    const auto at = std::find_if(pieces.begin(), pieces.end(),
                                 [&](const Piece& piece) { return piece.key == key; });
    return at == pieces.end() ? nullptr : &*at;
  }
  std::uint64_t Bytes() const {
    std::uint64_t bytes = 0;
    for (const Piece& piece : pieces)
      for (const auto& [layer, size] : piece.layers) bytes += size;
    return bytes;
  }
  void EvictBesides(const PieceKey& key) {
    const auto goes_before = [&](const Piece& a, const Piece& b) {
      if ((a.key == key) != (b.key == key)) return b.key == key;
      if (a.used != b.used) return a.used < b.used;
      if (a.key.positions.end != b.key.positions.end)
        return a.key.positions.end > b.key.positions.end;
      return a.key < b.key;
    };
    pieces.erase(std::min_element(pieces.begin(), pieces.end(), goes_before));
  }
  bool Put(const PieceKey& key, const std::map<std::uint32_t, std::size_t>& layers) {
    Piece piece{key, {}, moment};
    if (const Piece* old = Find(key)) piece.layers = old->layers;
    for (const auto& [layer, size] : layers) piece.layers[layer] = size;
    std::uint64_t alone = 0;
    for (const auto& [layer, size] : piece.layers) alone += size;
    if (alone > cap) return false;
    std::erase_if(pieces, [&](const Piece& old) { return old.key == key; });
    pieces.push_back(piece);
    while (Bytes() > cap) EvictBesides(key);
    return true;
  }
};

struct Step {
  int call = 0;
  std::uint8_t name = 0;
  Pos end = 1;
  std::vector<std::pair<std::uint32_t, std::size_t>> layers;
};

std::ostream& operator<<(std::ostream& out, const Step& step) {
  out << "{call " << step.call << " name " << int{step.name} << " end " << step.end;
  for (const auto& [layer, size] : step.layers) out << " " << layer << ":" << size;
  return out << "}";
}

rc::Gen<Step> StepGen() {
  return rc::gen::build<Step>(
      rc::gen::set(&Step::call, rc::gen::elementOf(std::vector<int>{0, 0, 0, 0, 1, 1, 2, 3, 3, 4})),
      rc::gen::set(&Step::name, rc::gen::inRange<std::uint8_t>(0, 3)),
      rc::gen::set(&Step::end, rc::gen::inRange<Pos>(1, 5)),
      rc::gen::set(
          &Step::layers,
          rc::gen::container<std::vector<std::pair<std::uint32_t, std::size_t>>>(rc::gen::pair(
              rc::gen::inRange<std::uint32_t>(0, 4), rc::gen::inRange<std::size_t>(0, 30)))));
}

RC_GTEST_PROP(PieceStoreProperty, IsThePlainModel, ()) {
  Model model;
  model.cap = *rc::gen::inRange<std::uint64_t>(0, 150);
  PieceStore store(model.cap);
  const std::vector<std::uint32_t> all = {0, 1, 2, 3};
  for (const Step& step : *rc::gen::container<std::vector<Step>>(StepGen())) {
    const PieceKey key = Key(step.name, step.end);
    std::map<std::uint32_t, std::size_t> layers;
    for (const auto& [layer, size] : step.layers) layers[layer] = size;
    std::vector<std::uint32_t> wanted;
    for (const auto& [layer, size] : layers) wanted.push_back(layer);
    Model::Piece* const known = model.Find(key);
    switch (step.call) {
      case 0: {
        Layers bytes;
        for (const auto& [layer, size] : layers) bytes.emplace_back(layer, Bytes(size));
        RC_ASSERT(store.Put(key, bytes).has_value() == model.Put(key, layers));
        break;
      }
      case 1: {
        const auto found = store.Find(key, wanted);
        if (known != nullptr) known->used = model.moment;
        std::map<std::uint32_t, std::size_t> expected;
        for (const std::uint32_t layer : wanted)
          if (known != nullptr && known->layers.contains(layer))
            expected[layer] = known->layers[layer];
        std::map<std::uint32_t, std::size_t> got;
        for (const auto& [layer, bytes] : found) got[layer] = bytes->size();
        RC_ASSERT(got == expected);
        break;
      }
      case 2:
        store.Drop(key);
        std::erase_if(model.pieces, [&](const auto& piece) { return piece.key == key; });
        break;
      case 3:
        store.NextMoment();
        ++model.moment;
        break;
      default: break;
    }
    RC_ASSERT(store.bytes() == model.Bytes());
    RC_ASSERT(store.bytes() <= model.cap);
    RC_ASSERT(store.pieces() == model.pieces.size());
    for (const Model::Piece& piece : model.pieces)
      for (const std::uint32_t layer : all)
        RC_ASSERT(store.Has(piece.key, {&layer, 1}) == piece.layers.contains(layer));
  }
}

}  // namespace
}  // namespace skippy::pipeline
