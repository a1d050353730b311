// A flat index of exact keys, as the other way to find a prefix (docs/experiments/01): pages of
// rows by the chained BLAKE3 digest of all tokens up to their end, as vLLM's block hashes are made.
//
// A page is whole (page_tokens rows), or the rest of a recorded prompt behind its last whole page;
// a page remembers the lengths of such rests behind it. Lookups go forward from the first page and
// stop at the first that is not there: what shares little costs little, and every page of a hit
// must be looked up anyway, since its rows are wanted. Tokens are not kept, so digests are trusted
// and two prompts share whole pages only.
//
// Room is counted in rows. Order of eviction as SegmentedLru of the core: leaves only, those that
// were never hit first, then the least recently used, deeper first; entries that were hit take at
// most three quarters of the room.
//
// Threads: one. Errors: none. Cost: a digest and a hash lookup a page.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "skippy/digest.h"
#include "skippy/row_slice.h"
#include "skippy/types.h"

namespace skippy::bench {

struct FlatOptions {
  std::uint32_t page_tokens = 64;
  std::uint64_t cap_rows = 0;
  std::uint32_t row_bytes = 16;
};

class FlatIndex {
 public:
  struct Page;

  // Rows of [0, boundary), pinned while it lives. Move-only.
  class Hit {
   public:
    Hit() = default;
    Hit(Hit&& other) noexcept = default;
    Hit& operator=(Hit&&) = delete;
    ~Hit();
    Pos boundary() const { return boundary_; }
    const std::vector<RowSlice>& rows() const { return rows_; }

   private:
    friend class FlatIndex;
    Pos boundary_ = 0;
    std::vector<RowSlice> rows_;
    std::vector<Page*> pages_;
  };

  explicit FlatIndex(const FlatOptions& options);
  ~FlatIndex();

  // Boundary 0: nothing is known.
  Hit Lookup(TokenSpan tokens, Pos max_boundary);
  // Adds what is missing; what finds no room is left out, from the end.
  void Record(TokenSpan tokens);

  std::uint64_t rows() const { return rows_; }
  std::uint64_t pages() const { return pages_.size(); }
  std::uint64_t evicted_rows() const { return evicted_rows_; }

 private:
  struct LeafOrder {
    bool operator()(const Page* a, const Page* b) const;
  };

  Digest KeyOf(const Page* parent, TokenSpan tokens) const;
  Page* Find(const Digest& key);
  // The known pages of `tokens`, whole ones and then maybe a rest, into path_.
  void Walk(TokenSpan tokens);
  void Touch(bool hit);
  Page* Add(Page* parent, const Digest& key, Pos begin, std::uint32_t rows);
  bool MakeRoom(std::uint64_t rows);
  void Evict(Page* page);
  void Demote();

  const FlatOptions options_;
  std::unique_ptr<Page> root_;
  std::unordered_map<Digest, Page> pages_;  // stable addresses
  std::set<Page*, LeafOrder> leaves_;
  std::vector<Page*> path_;
  std::uint64_t tick_ = 0;
  std::uint64_t rows_ = 0;
  std::uint64_t hit_rows_ = 0;
  std::uint64_t evicted_rows_ = 0;
};

}  // namespace skippy::bench
