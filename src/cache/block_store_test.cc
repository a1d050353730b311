#include "cache/block_store.h"

#include <gtest/gtest.h>

#include "cache/cache_testing.h"

namespace skippy::cache {
namespace {

constexpr NamespaceSlot kA{0};
constexpr NamespaceSlot kB{1};

Buffer Filled(std::size_t size, int value) {
  Buffer buffer = *Buffer::Allocate(size);
  std::fill(buffer.span().begin(), buffer.span().end(), std::byte(value));
  return buffer;
}

BlockStore::Added AddFilled(BlockStore& store, Component component, std::size_t size, int value,
                            DigestFunction digest = &Blake3) {
  Buffer buffer = Filled(size, value);
  const Digest d = digest(buffer.span());
  return store.Add(component, std::move(buffer), d);
}

TEST(BlockStoreTest, BuffersAreAlignedForAnyScalar) {
  for (const std::size_t size : {1, 63, 64, 1000}) {
    const Buffer buffer = *Buffer::Allocate(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.span().data()) % alignof(std::max_align_t),
              0U);
    EXPECT_EQ(buffer.size(), size);
  }
}

TEST(BlockStoreTest, EqualPayloadsAreOneBlock) {
  BlockStore store({1000, 0, 1000});
  const auto first = AddFilled(store, Component::kKv, 10, 1);
  store.Ref(first.id, kA);
  const auto second = AddFilled(store, Component::kKv, 10, 1);
  EXPECT_TRUE(first.stored);
  EXPECT_FALSE(second.stored);
  EXPECT_EQ(first.id, second.id);
  EXPECT_EQ(store.live_bytes(), 10U);
}

TEST(BlockStoreTest, ACollidingDigestSharesNothingThatDiffers) {
  BlockStore store({1000, 0, 1000});
  const auto a = AddFilled(store, Component::kKv, 10, 1, &CollidingDigest);
  store.Ref(a.id, kA);
  const auto b = AddFilled(store, Component::kKv, 10, 2, &CollidingDigest);
  store.Ref(b.id, kA);
  const auto c = AddFilled(store, Component::kKv, 9, 1, &CollidingDigest);
  store.Ref(c.id, kA);
  const auto again = AddFilled(store, Component::kKv, 10, 2, &CollidingDigest);
  EXPECT_EQ(store.block_count(), 3U);
  EXPECT_EQ(again.id, b.id);
  EXPECT_EQ(store.bytes(a.id)[0], std::byte{1});
  EXPECT_EQ(store.bytes(b.id)[0], std::byte{2});
}

TEST(BlockStoreTest, ComponentsDoNotShareBlocks) {
  BlockStore store({1000, 0, 1000});
  const auto kv = AddFilled(store, Component::kKv, 10, 1);
  const auto window = AddFilled(store, Component::kWindow, 10, 1);
  EXPECT_NE(kv.id, window.id);
  EXPECT_EQ(store.live()[Component::kKv], 10U);
  EXPECT_EQ(store.live()[Component::kWindow], 10U);
}

TEST(BlockStoreTest, ABlockLivesUntilTheLastReferenceAndPinAreGone) {
  BlockStore store({1000, 0, 1000});
  const auto added = AddFilled(store, Component::kSnapshot, 10, 1);
  store.Ref(added.id, kA);
  store.Ref(added.id, kA);
  store.Pin(added.id);
  store.Unref(added.id, kA);
  store.Unref(added.id, kA);
  EXPECT_EQ(store.live_bytes(), 10U);
  EXPECT_EQ(store.pinned_count(), 1U);
  store.Unpin(added.id);
  EXPECT_EQ(store.live_bytes(), 0U);
  EXPECT_EQ(store.block_count(), 0U);
  EXPECT_TRUE(store.FinderIsConsistent());
}

TEST(BlockStoreTest, NamespacesAreChargedForWhatTheyReferTo) {
  BlockStore store({1000, 0, 1000});
  const auto added = AddFilled(store, Component::kKv, 10, 1);
  store.Ref(added.id, kA);
  store.Ref(added.id, kA);
  store.Ref(added.id, kB);
  EXPECT_EQ(store.NamespaceLive(kA), 10U);
  EXPECT_EQ(store.NamespaceLive(kB), 10U);
  EXPECT_EQ(store.live_bytes(), 10U);
  store.Unref(added.id, kA);
  EXPECT_EQ(store.NamespaceLive(kA), 10U);
  store.Unref(added.id, kA);
  EXPECT_EQ(store.NamespaceLive(kA), 0U);
  store.Unref(added.id, kB);
  EXPECT_EQ(store.live_bytes(), 0U);
}

TEST(BlockStoreTest, ReservedBytesCountAgainstEveryCap) {
  BlockStore store({100, 60, 20});
  Footprint kv;
  kv[Component::kKv] = 40;
  store.Reserve(kA, kv);
  EXPECT_EQ(store.Violated(kA, kv), BlockStore::Limit::kNamespace);
  EXPECT_EQ(store.Violated(kB, kv), BlockStore::Limit::kNone);
  store.Reserve(kB, kv);
  Footprint more;
  more[Component::kKv] = 20;
  EXPECT_EQ(store.Violated(kB, more), BlockStore::Limit::kNone);
  more[Component::kKv] = 21;
  EXPECT_EQ(store.Violated(NamespaceSlot{2}, more), BlockStore::Limit::kTotal);
  Footprint logits;
  logits[Component::kLogits] = 21;
  EXPECT_EQ(store.Violated(NamespaceSlot{2}, logits), BlockStore::Limit::kLogits);
  store.Release(kA, kv);
  store.Release(kB, kv);
  EXPECT_EQ(store.reserved().Total(), 0U);
}

TEST(BlockStoreTest, PinnedAndReservedBytesDecideWhatCouldFit) {
  BlockStore store({100, 0, 0});
  const auto pinned = AddFilled(store, Component::kKv, 30, 1);
  store.Ref(pinned.id, kA);
  store.Pin(pinned.id);
  const auto loose = AddFilled(store, Component::kKv, 30, 2);
  store.Ref(loose.id, kA);
  Footprint need;
  need[Component::kKv] = 70;
  EXPECT_TRUE(store.CouldFit(need));
  need[Component::kKv] = 71;
  EXPECT_FALSE(store.CouldFit(need));
}

TEST(BlockStoreTest, ACondemnedBlockIsNotFoundAgain) {
  BlockStore store({1000, 0, 1000});
  const auto bad = AddFilled(store, Component::kKv, 10, 1);
  store.Ref(bad.id, kA);
  store.Condemn(bad.id);
  const auto fresh = AddFilled(store, Component::kKv, 10, 1);
  store.Ref(fresh.id, kA);
  EXPECT_TRUE(fresh.stored);
  EXPECT_NE(fresh.id, bad.id);
  store.Unref(bad.id, kA);
  EXPECT_EQ(store.live_bytes(), 10U);
  EXPECT_TRUE(store.FinderIsConsistent());
}

TEST(BlockStoreTest, PinsEndWithTheirHolder) {
  const auto store = std::make_shared<BlockStore>(StoreLimits{1000, 0, 1000});
  const auto added = AddFilled(*store, Component::kKv, 10, 1);
  store->Ref(added.id, kA);
  BlockPins outer(store);
  {
    BlockPins pins(store);
    pins.Add(added.id);
    outer = std::move(pins);
  }
  store->Unref(added.id, kA);
  EXPECT_EQ(store->live_bytes(), 10U);
  outer = BlockPins(store);
  EXPECT_EQ(store->live_bytes(), 0U);
}

}  // namespace
}  // namespace skippy::cache
