#include "cache/block_store.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace skippy::cache {

std::optional<Buffer> Buffer::Allocate(std::size_t size) {
  Buffer buffer;
  buffer.data_.reset(static_cast<std::byte*>(::operator new(size, std::nothrow)));
  if (buffer.data_ == nullptr) return std::nullopt;
  buffer.size_ = size;
  return buffer;
}

std::uint64_t Footprint::Total() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
}

void Footprint::Add(const Footprint& other) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] += other.bytes[i];
}

void Footprint::Subtract(const Footprint& other) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] -= other.bytes[i];
}

BlockStore::NamespaceUsage& BlockStore::Usage(NamespaceSlot slot) {
  if (slot.value >= usage_.size()) usage_.resize(slot.value + 1);
  return usage_[slot.value];
}

std::uint64_t BlockStore::NamespaceLive(NamespaceSlot slot) const {
  return slot.value < usage_.size() ? usage_[slot.value].live : 0;
}

std::uint64_t BlockStore::NamespaceReserved(NamespaceSlot slot) const {
  return slot.value < usage_.size() ? usage_[slot.value].reserved : 0;
}

BlockStore::Limit BlockStore::Violated(NamespaceSlot slot, const Footprint& need) const {
  const std::uint64_t logits = need[Component::kLogits];
  if (logits > 0 && live_[Component::kLogits] + reserved_[Component::kLogits] + logits >
                        limits_.max_logits_bytes) {
    return Limit::kLogits;
  }
  if (limits_.max_namespace_bytes > 0 &&
      NamespaceLive(slot) + NamespaceReserved(slot) + need.Total() > limits_.max_namespace_bytes) {
    return Limit::kNamespace;
  }
  if (live_.Total() + reserved_.Total() + need.Total() > limits_.max_bytes) return Limit::kTotal;
  return Limit::kNone;
}

bool BlockStore::CouldFit(const Footprint& need) const {
  return pinned_bytes_ + reserved_.Total() + need.Total() <= limits_.max_bytes;
}

void BlockStore::Reserve(NamespaceSlot slot, const Footprint& need) {
  reserved_.Add(need);
  Usage(slot).reserved += need.Total();
}

void BlockStore::Release(NamespaceSlot slot, const Footprint& need) {
  reserved_.Subtract(need);
  Usage(slot).reserved -= need.Total();
}

BlockStore::Added BlockStore::Add(Component component, Buffer buffer, const Digest& digest) {
  const auto [first, last] = finder_.equal_range(digest);
  for (auto it = first; it != last; ++it) {
    const Block& other = blocks_[it->second.value];
    if (other.component == component && other.buffer.size() == buffer.size() &&
        std::memcmp(other.buffer.span().data(), buffer.span().data(), buffer.size()) == 0) {
      return {it->second, false};
    }
  }
  BlockId id{static_cast<std::uint32_t>(blocks_.size())};
  if (free_.empty()) {
    blocks_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Block& block = blocks_[id.value];
  live_[component] += buffer.size();
  ++block_count_;
  block.buffer = std::move(buffer);
  block.digest = digest;
  block.component = component;
  block.state = BlockState::kReady;
  finder_.emplace(digest, id);
  return {id, true};
}

void BlockStore::Ref(BlockId id, NamespaceSlot slot) {
  Block& block = blocks_[id.value];
  ++block.refs;
  for (NamespaceRefs& refs : block.by_namespace) {
    if (refs.slot == slot) {
      ++refs.count;
      return;
    }
  }
  block.by_namespace.push_back({slot, 1});
  Usage(slot).live += block.buffer.size();
}

void BlockStore::Unref(BlockId id, NamespaceSlot slot) {
  Block& block = blocks_[id.value];
  --block.refs;
  const auto it = std::find_if(block.by_namespace.begin(), block.by_namespace.end(),
                               [&](const NamespaceRefs& refs) { return refs.slot == slot; });
  if (--it->count == 0) {
    block.by_namespace.erase(it);
    Usage(slot).live -= block.buffer.size();
  }
  FreeIfDead(id);
}

void BlockStore::Pin(BlockId id) {
  Block& block = blocks_[id.value];
  if (block.pins++ == 0) {
    ++pinned_count_;
    pinned_bytes_ += block.buffer.size();
  }
}

void BlockStore::Unpin(BlockId id) {
  Block& block = blocks_[id.value];
  if (--block.pins == 0) {
    --pinned_count_;
    pinned_bytes_ -= block.buffer.size();
  }
  FreeIfDead(id);
}

void BlockStore::Condemn(BlockId id) {
  Block& block = blocks_[id.value];
  if (block.state != BlockState::kReady) return;
  EraseFromFinder(id);
  block.state = BlockState::kCondemned;
}

void BlockStore::EraseFromFinder(BlockId id) {
  const auto [first, last] = finder_.equal_range(blocks_[id.value].digest);
  for (auto it = first; it != last; ++it) {
    if (it->second == id) {
      finder_.erase(it);
      return;
    }
  }
}

void BlockStore::FreeIfDead(BlockId id) {
  Block& block = blocks_[id.value];
  if (block.refs > 0 || block.pins > 0) return;
  if (block.state == BlockState::kReady) EraseFromFinder(id);
  live_[block.component] -= block.buffer.size();
  --block_count_;
  block.buffer = Buffer();
  block.state = BlockState::kFree;
  block.by_namespace.shrink_to_fit();
  free_.push_back(id);
}

bool BlockStore::FinderIsConsistent() const {
  std::size_t ready = 0;
  for (const Block& block : blocks_) ready += block.state == BlockState::kReady ? 1 : 0;
  if (ready != finder_.size()) return false;
  return std::all_of(finder_.begin(), finder_.end(), [&](const auto& entry) {
    const Block& block = blocks_[entry.second.value];
    return block.state == BlockState::kReady && block.digest == entry.first;
  });
}

BlockPins& BlockPins::operator=(BlockPins&& other) noexcept {
  if (this != &other) {
    Clear();
    store_ = std::move(other.store_);
    ids_ = std::move(other.ids_);
    other.ids_.clear();
  }
  return *this;
}

void BlockPins::Add(BlockId id) {
  store_->Pin(id);
  ids_.push_back(id);
}

void BlockPins::Clear() {
  for (const BlockId id : ids_) store_->Unpin(id);
  ids_.clear();
}

}  // namespace skippy::cache
