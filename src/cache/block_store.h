// BlockStore: payload bytes, each kept once, counted exactly, and never beyond the caps.
//
// A block is immutable from the moment it is added. It lives while an index entry refers to it or a
// hit or ticket pins it. Equal blocks of one component are one block: a digest finds, the bytes are
// compared, so a colliding digest function costs time only.
//
// Accounting (invariant I4): live + reserved <= cap, in total, for logits, and for each namespace.
// Bytes are reserved before a buffer is filled and turn from reserved to live when it is added.
//
// Threads: single-threaded (owner). Errors: no call fails; allocation is the caller's
// (Buffer::Allocate). Cost: Add digests nothing itself; O(1) plus one comparison per equal digest.
// All else O(1).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <unordered_map>
#include <vector>

#include "skippy/cache_options.h"
#include "skippy/digest.h"
#include "skippy/memory_shape.h"
#include "skippy/types.h"

namespace skippy::cache {

using BlockId = StrongInt<struct BlockIdTag, std::uint32_t>;
// A namespace's place in the accounts.
using NamespaceSlot = StrongInt<struct NamespaceSlotTag, std::uint32_t>;

// Uninitialised bytes, aligned for any scalar. Move-only.
class Buffer {
 public:
  Buffer() = default;
  // Nothing when memory is short.
  static std::optional<Buffer> Allocate(std::size_t size);
  std::size_t size() const { return size_; }
  MutableByteSpan span() const { return {data_.get(), size_}; }

 private:
  // No stricter alignment: glibc before 2.38 asks its bins for the size plus the alignment then, so
  // that the room of an evicted block never fits the next one of the same size, and the process
  // grows far beyond the cap.
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

// Bytes by component.
struct Footprint {
  std::array<std::uint64_t, kComponentCount> bytes{};
  std::uint64_t& operator[](Component c) { return bytes[static_cast<std::size_t>(c)]; }
  std::uint64_t operator[](Component c) const { return bytes[static_cast<std::size_t>(c)]; }
  std::uint64_t Total() const;
  void Add(const Footprint& other);
  void Subtract(const Footprint& other);
  bool operator==(const Footprint&) const = default;
};

struct StoreLimits {
  std::uint64_t max_bytes = 0;
  std::uint64_t max_namespace_bytes = 0;  // 0: none
  std::uint64_t max_logits_bytes = 0;
};

class BlockStore {
 public:
  enum class Limit : std::uint8_t { kNone, kTotal, kNamespace, kLogits };
  enum class BlockState : std::uint8_t { kFree, kReady, kCondemned };
  struct NamespaceRefs {
    NamespaceSlot slot;
    std::uint32_t count = 0;
  };
  struct Block {
    Buffer buffer;
    Digest digest;
    Component component = Component::kKv;
    BlockState state = BlockState::kFree;
    std::uint32_t refs = 0;
    std::uint32_t pins = 0;
    std::vector<NamespaceRefs> by_namespace;  // mostly one: equal payloads of two tenants are rare
  };

  explicit BlockStore(const StoreLimits& limits) : limits_(limits) {}

  // The first limit that `need` more bytes would break, logits first.
  Limit Violated(NamespaceSlot slot, const Footprint& need) const;
  // Could `need` fit if everything that is neither pinned nor reserved went away?
  bool CouldFit(const Footprint& need) const;
  void Reserve(NamespaceSlot slot, const Footprint& need);
  void Release(NamespaceSlot slot, const Footprint& need);

  struct Added {
    BlockId id;
    bool stored = false;  // false: an equal block existed and `buffer` was dropped
  };
  // A stored block has no references yet: give it one (Ref) before anything else.
  Added Add(Component component, Buffer buffer, const Digest& digest);

  void Ref(BlockId id, NamespaceSlot slot);
  void Unref(BlockId id, NamespaceSlot slot);
  void Pin(BlockId id);
  void Unpin(BlockId id);
  // No later Add returns it. Its references are the caller's to drop.
  void Condemn(BlockId id);

  ByteSpan bytes(BlockId id) const { return blocks_[id.value].buffer.span(); }
  bool Pinned(BlockId id) const { return blocks_[id.value].pins > 0; }
  bool Condemned(BlockId id) const { return blocks_[id.value].state == BlockState::kCondemned; }

  std::uint64_t live_bytes() const { return live_.Total(); }
  const Footprint& live() const { return live_; }
  const Footprint& reserved() const { return reserved_; }
  std::uint64_t block_count() const { return block_count_; }
  std::uint64_t pinned_count() const { return pinned_count_; }
  std::uint64_t NamespaceLive(NamespaceSlot slot) const;
  std::uint64_t NamespaceReserved(NamespaceSlot slot) const;
  const StoreLimits& limits() const { return limits_; }

  // Tickets die on their own, maybe after the cache: their fate is counted here.
  void CountAborted() { ++aborted_; }
  std::uint64_t aborted() const { return aborted_; }

  // For the self-check: every slot, free ones included, and whether the finder knows exactly the
  // ready ones.
  const std::deque<Block>& blocks() const { return blocks_; }
  bool FinderIsConsistent() const;

 private:
  struct NamespaceUsage {
    std::uint64_t live = 0;
    std::uint64_t reserved = 0;
  };
  NamespaceUsage& Usage(NamespaceSlot slot);
  void FreeIfDead(BlockId id);
  void EraseFromFinder(BlockId id);

  const StoreLimits limits_;
  std::deque<Block> blocks_;
  std::vector<BlockId> free_;
  std::unordered_multimap<Digest, BlockId> finder_;  // ready blocks only
  std::vector<NamespaceUsage> usage_;
  Footprint live_;
  Footprint reserved_;
  std::uint64_t pinned_bytes_ = 0;
  std::uint64_t block_count_ = 0;
  std::uint64_t pinned_count_ = 0;
  std::uint64_t aborted_ = 0;
};

// Pins held by a hit, a ticket or a pinned prefix; gone with it. Move-only.
class BlockPins {
 public:
  // The store is shared because hits and tickets may outlive the cache: their spans stay valid.
  explicit BlockPins(std::shared_ptr<BlockStore> store) : store_(std::move(store)) {}
  BlockPins(BlockPins&& other) noexcept = default;
  BlockPins& operator=(BlockPins&& other) noexcept;
  ~BlockPins() { Clear(); }
  void Add(BlockId id);
  void Reserve(std::size_t count) { ids_.reserve(count); }
  void Clear();
  const std::vector<BlockId>& ids() const { return ids_; }
  BlockStore& store() const { return *store_; }

 private:
  std::shared_ptr<BlockStore> store_;
  std::vector<BlockId> ids_;
};

}  // namespace skippy::cache
