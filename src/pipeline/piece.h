// Pieces: what a stage keeps of a prefix, and how it is named.
//
// The name of a piece is a digest of the namespace and of all tokens up to its end, so that all
// stages, whatever layers they hold and whenever they were started, mean the same by it.
//
// Threads: pure functions. Errors: none. Cost: a digest of 4 bytes a token (3.5 GB/s).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "skippy/digest.h"
#include "skippy/identity.h"
#include "skippy/memory_shape.h"
#include "skippy/types.h"

namespace skippy::pipeline {

struct PieceKey {
  Digest name;  // PieceName of the tokens [0, positions.end)
  Component component = Component::kKv;
  PosRange positions;  // of its rows; of a snapshot [end, end)
  auto operator<=>(const PieceKey&) const = default;
};

Digest PieceName(const Namespace& ns, TokenSpan tokens);
// Of the first ends[i] tokens each, in one pass. `ends`: ascending, none beyond the tokens.
std::vector<Digest> PieceNames(const Namespace& ns, TokenSpan tokens, std::span<const Pos> ends);

// A key as bytes, which stand for each row of the piece (for the snapshot) where rows themselves
// are not at hand: the digest, then begin and end. The component is known from where they stand.
inline constexpr std::size_t kKeyBytes = sizeof(Digest::bytes) + 2 * sizeof(Pos);
// out.size() == kKeyBytes
void WriteKey(const PieceKey& key, MutableByteSpan out);
// None: not what WriteKey writes.
std::optional<PieceKey> ReadKey(Component component, ByteSpan bytes);

// Rows of `positions`, which lie within the piece's.
struct PieceSlice {
  PieceKey piece;
  PosRange positions;
  bool operator==(const PieceSlice&) const = default;
};

}  // namespace skippy::pipeline
