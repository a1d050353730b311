// PrefixCache: the exact prefix cache of one loaded model. Knows no runtime, no HTTP, no JSON, no
// threads.
//
// Caveats, first:
//  - Single-threaded: every call comes from the thread that owns the cache (the engine thread).
//  - Spans handed out by a hit stay valid while the hit is alive (it pins its blocks), not longer.
//  - BeginRecord may evict. It never evicts what a live hit or ticket pins, and it refuses the
//  record
//    (a value, not an error) rather than exceed a cap.
//  - After a broken invariant the cache is latched off: lookups miss with kDisabled, records are
//  refused,
//    Stats() tells why. Requests go on uncached.
//
// The index is a radix tree over token ids, one root a namespace. A node owns a run of tokens;
// along the run lie extents of rows (blocks shared when a run is split), and at single boundaries
// snapshots and logits. A boundary is usable when every component of the shape is there (invariant
// I7). Lookup walks the tree: cost O(tokens compared + nodes on the path), no allocation a token,
// no scan over entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "skippy/cache_options.h"
#include "skippy/cache_stats.h"
#include "skippy/clock.h"
#include "skippy/identity.h"
#include "skippy/memory_shape.h"
#include "skippy/result.h"
#include "skippy/row_slice.h"
#include "skippy/types.h"

namespace skippy {

// How rows were computed; a smaller value is stronger. In Exactness::kBit only kGrid rows are
// restored. kGrid is a claim about the lane, not about one chunk: all its rows so far come from
// grid chunks, or were restored from such (a hit of Exactness::kBit). A kGrid record replaces
// weaker rows that are stored; between the other two nothing is replaced.
enum class Provenance : std::uint8_t {
  kGrid = 0,     // by a prefill chunk that began and ended on the grid, upon kGrid rows only
  kPrefill = 1,  // by any other prefill chunk
  kDecode = 2,   // token by token while generating
};

enum class Exactness : std::uint8_t { kToken = 0, kBit = 1 };

// Why a lookup did not return one token more. "no reason" means: everything usable was returned.
enum class MissReason : std::uint8_t {
  kNone = 0,
  kNeverSeen = 1,  // nothing of this prompt is known in this namespace
  kDiverged = 2,   // the known text goes on differently from position first_different
  kEvicted = 3,    // it was known and was evicted (or never admitted for lack of room)
  kNoBoundaryState =
      4,  // tokens known further than any usable boundary (snapshot or window missing there)
  kBelowMin = 5,  // a hit shorter than min_hit_tokens
  kDisabled = 6,  // cache off or latched
  kCorrupt = 7,   // data was found damaged, or lost where it is kept, and was dropped
};
std::string_view MissReasonName(MissReason reason);

struct LookupQuery {
  Namespace ns;
  TokenSpan tokens;
  // A hit ends at the latest here: tokens.size() - 1 for a prompt that must yield logits. A decoded
  // result may end at tokens.size() regardless.
  Pos max_boundary = 0;
  bool allow_decoded_result = true;
  Exactness exactness = Exactness::kToken;
  Pos grid = 0;  // kBit: boundaries are multiples of it
  // A dry run: no recency update, no counters.
  bool peek = false;
  // Looked up before for the same request: says nothing new about where texts go on.
  bool again = false;
};

namespace cache {
class CacheImpl;
struct PinState;
struct TicketState;
}  // namespace cache

// A restorable boundary whose blocks are pinned until the object dies. Move-only.
class PinnedHit {
 public:
  PinnedHit(PinnedHit&&) noexcept;
  PinnedHit& operator=(PinnedHit&&) noexcept;
  ~PinnedHit();

  Pos boundary() const;         // tokens [0, boundary) are covered
  bool decoded_result() const;  // logits at the boundary are there, boundary == tokens.size()
  std::span<const RowSlice> kv()
      const;  // covers [0, boundary) without gap or overlap; empty if no KV
  std::span<const RowSlice> window() const;  // covers [WindowBegin(boundary), boundary)
  ByteSpan snapshot() const;                 // empty if the shape has none
  ByteSpan logits() const;                   // empty unless decoded_result()

 private:
  friend class cache::CacheImpl;
  explicit PinnedHit(std::unique_ptr<cache::PinState> state);
  std::unique_ptr<cache::PinState> state_;
};

// Some of what a hit is made of, as indices into its slices.
struct HitParts {
  std::vector<std::size_t> kv;
  std::vector<std::size_t> window;
  bool snapshot = false;
};

struct LookupResult {
  std::optional<PinnedHit> hit;
  MissReason reason = MissReason::kNone;  // why the hit is not longer (or why there is none)
  // Length of the longest prefix of the query that the index knows as text; the first different
  // token's position when reason is kDiverged. At least hit->boundary().
  Pos first_different = 0;
};

// "The lane now holds the state after `tokens`": what of it should be kept.
struct RecordRequest {
  Namespace ns;
  TokenSpan tokens;  // from position 0; the boundary is tokens.size()
  Provenance provenance =
      Provenance::kPrefill;       // of rows not yet known (kGrid: of all rows of the lane)
  Pos rows_available_from = 0;    // KV rows before it cannot be exported any more
  Pos window_available_from = 0;  // the same for window rows (a ring forgets)
  bool snapshot = false;          // a recurrent snapshot can be exported now and is wanted
  bool logits = false;            // logits of the last token are at hand
  bool prompt_end = false;        // this boundary ends a prompt: last to be thinned out
  bool answer_end = false;        // an answer ends here, as far as it was evaluated
  bool part_start = false;        // a message begins here, or prompts part: as the one before it

  bool EndsText() const { return prompt_end || answer_end; }
};

enum class RecordOutcome : std::uint8_t {
  kPlanned = 0,     // there is a ticket: fill its buffers, then Commit
  kNothingNew = 1,  // everything is known already (recency was updated)
  kTooLarge = 2,    // would not fit the caps even in an empty cache
  kNoRoom = 3,      // nothing evictable (all pinned)
  kGap = 4,         // rows before rows_available_from are missing: cannot be recorded
  kDisabled = 5,
};

// Buffers to fill for one record. Bytes are reserved; dropping the ticket gives them back and
// nothing becomes visible. Move-only.
class RecordTicket {
 public:
  struct Rows {
    Component component;     // kKv or kWindow
    PosRange positions;      // within one page
    MutableByteSpan buffer;  // positions.size() * row bytes
  };
  RecordTicket(RecordTicket&&) noexcept;
  RecordTicket& operator=(RecordTicket&&) noexcept;
  ~RecordTicket();

  std::span<const Rows> rows() const;
  MutableByteSpan snapshot() const;  // empty: not wanted
  MutableByteSpan logits() const;    // empty: not wanted

 private:
  friend class cache::CacheImpl;
  explicit RecordTicket(std::unique_ptr<cache::TicketState> state);
  std::unique_ptr<cache::TicketState> state_;
};

struct RecordPlan {
  RecordOutcome outcome = RecordOutcome::kNothingNew;
  std::optional<RecordTicket> ticket;  // exactly when outcome == kPlanned
};

class PrefixCache {
 public:
  // `clock` must outlive the cache. Options must be valid (Validate()).
  PrefixCache(const CacheOptions& options, const Clock& clock);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // Deepest usable boundary <= max_boundary, or the decoded result of the whole query.
  LookupResult Lookup(const LookupQuery& query);

  // Two-phase record. All that is planned becomes visible in Commit, or nothing does.
  RecordPlan BeginRecord(const RecordRequest& request);
  // An error (the base was cleared or condemned meanwhile, the cache latched) is no reason to fail
  // a request.
  Status Commit(RecordTicket ticket);

  // Erases what `hit` was made of (a failed or refused import): no later lookup returns it.
  void Condemn(PinnedHit hit);
  // Erases these parts of it alone (rows whose content is kept elsewhere and is gone there):
  // shorter hits of the rest remain.
  void Condemn(PinnedHit hit, const HitParts& parts);

  // Pins the deepest usable boundary of a prefix against eviction until unpinned (warm system
  // prompts). Pinning twice is pinning once. NotFound if the text is not known as a whole or
  // nothing is usable.
  Status PinPrefix(const Namespace& ns, TokenSpan tokens);
  Status UnpinPrefix(const Namespace& ns, TokenSpan tokens);

  // Drops everything that is not pinned by a live hit or ticket; a pinned block dies with its pin.
  // Pinned prefixes are dropped too.
  void Clear();
  void ClearNamespace(const Namespace& ns);

  CacheStats Stats() const;
  const CacheOptions& options() const;

  // O(everything): checks the invariants I3-I5 and I7 and that byte counts add up. A failure
  // latches.
  Status SelfCheck();

 private:
  std::unique_ptr<cache::CacheImpl> impl_;
};

}  // namespace skippy
