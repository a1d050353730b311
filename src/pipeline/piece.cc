#include "pipeline/piece.h"

#include <cstring>

namespace skippy::pipeline {

Digest PieceName(const Namespace& ns, TokenSpan tokens) {
  const auto end = static_cast<Pos>(tokens.size());
  return PieceNames(ns, tokens, {&end, 1}).front();
}

std::vector<Digest> PieceNames(const Namespace& ns, TokenSpan tokens, std::span<const Pos> ends) {
  std::vector<Digest> names;
  Blake3Hasher hasher;
  hasher.Update(std::as_bytes(std::span(ns.key.bytes)));
  Pos hashed = 0;
  for (const Pos end : ends) {
    // Tokens lie in memory as they travel: little endian.
    hasher.Update(std::as_bytes(tokens.subspan(hashed, end - hashed)));
    hashed = end;
    names.push_back(hasher.Finish());
  }
  return names;
}

void WriteKey(const PieceKey& key, MutableByteSpan out) {
  std::byte* to = out.data();
  std::memcpy(to, key.name.bytes.data(), sizeof key.name.bytes);
  to += sizeof key.name.bytes;
  std::memcpy(to, &key.positions.begin, sizeof(Pos));
  std::memcpy(to + sizeof(Pos), &key.positions.end, sizeof(Pos));
}

std::optional<PieceKey> ReadKey(Component component, ByteSpan bytes) {
  if (bytes.size() != kKeyBytes) return std::nullopt;
  PieceKey key;
  key.component = component;
  const std::byte* from = bytes.data();
  std::memcpy(key.name.bytes.data(), from, sizeof key.name.bytes);
  from += sizeof key.name.bytes;
  std::memcpy(&key.positions.begin, from, sizeof(Pos));
  std::memcpy(&key.positions.end, from + sizeof(Pos), sizeof(Pos));
  const bool sound = component == Component::kSnapshot ? key.positions.begin == key.positions.end
                                                       : key.positions.begin < key.positions.end;
  return sound ? std::optional(key) : std::nullopt;
}

}  // namespace skippy::pipeline
