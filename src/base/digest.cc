#include "skippy/digest.h"

#include <blake3.h>

#include <cstring>
#include <new>

namespace skippy {
namespace {

std::string ToHex(const std::uint8_t* bytes, std::size_t count) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out(count * 2, '0');
  for (std::size_t i = 0; i < count; ++i) {
    out[2 * i] = kDigits[bytes[i] >> 4];
    out[2 * i + 1] = kDigits[bytes[i] & 15];
  }
  return out;
}

}  // namespace

std::string Digest::Hex() const { return ToHex(bytes.data(), bytes.size()); }
std::string Digest::ShortHex() const { return ToHex(bytes.data(), 6); }

Blake3Hasher::Blake3Hasher() {
  static_assert(sizeof(blake3_hasher) <= sizeof(state_) && alignof(blake3_hasher) <= 8);
  blake3_hasher_init(new (state_.data()) blake3_hasher);
}

void Blake3Hasher::Update(ByteSpan bytes) {
  blake3_hasher_update(std::launder(reinterpret_cast<blake3_hasher*>(state_.data())), bytes.data(),
                       bytes.size());
}

Digest Blake3Hasher::Finish() const {
  Digest digest;
  blake3_hasher_finalize(std::launder(reinterpret_cast<const blake3_hasher*>(state_.data())),
                         digest.bytes.data(), digest.bytes.size());
  return digest;
}

Digest Blake3(ByteSpan bytes) {
  Blake3Hasher hasher;
  hasher.Update(bytes);
  return hasher.Finish();
}

}  // namespace skippy

std::size_t std::hash<skippy::Digest>::operator()(const skippy::Digest& d) const {
  std::size_t value = 0;
  std::memcpy(&value, d.bytes.data(), sizeof(value));
  return value;
}
