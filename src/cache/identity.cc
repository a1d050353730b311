#include "skippy/identity.h"

#include <bit>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace skippy {
namespace {

// Every field is written as a fixed-size little-endian number or as length and bytes, in
// declaration order, so no two different identities can have the same encoding.
class Encoder {
 public:
  template <class UInt>
  void Number(UInt value) {
    static_assert(std::is_unsigned_v<UInt>);
    for (std::size_t i = 0; i < sizeof(UInt); ++i) {
      out_.push_back(static_cast<std::byte>((value >> (8 * i)) & 0xff));
    }
  }
  void Flag(bool value) { Number(static_cast<std::uint8_t>(value ? 1 : 0)); }
  void Text(std::string_view text) {
    Number(static_cast<std::uint64_t>(text.size()));
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void Content(const Digest& digest) {
    const auto bytes = std::as_bytes(std::span(digest.bytes));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  // The bits decide, except that -0 equals 0 in Identity's comparison and so here.
  void Real(float value) { Number(std::bit_cast<std::uint32_t>(value == 0.0F ? 0.0F : value)); }
  std::vector<std::byte> Take() { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

constexpr std::string_view kIdentityMagic = "skippy.identity";
constexpr std::string_view kNamespaceMagic = "skippy.namespace";

}  // namespace

std::vector<std::byte> EncodeIdentity(const Identity& identity) {
  Encoder e;
  e.Text(kIdentityMagic);
  e.Number(kIdentityVersion);
  e.Content(identity.model);
  e.Content(identity.tokenizer);
  e.Text(identity.architecture);
  e.Text(identity.runtime_build);
  e.Text(identity.device);
  e.Text(identity.kv_type_k);
  e.Text(identity.kv_type_v);
  e.Flag(identity.flash_attention);
  e.Text(identity.rope);
  e.Flag(identity.swa_full);
  e.Number(identity.streams);
  e.Number(identity.context);
  e.Number(identity.chunk);
  e.Number(identity.threads);
  e.Number(identity.layer_begin);
  e.Number(identity.layer_end);
  e.Text(identity.topology);
  e.Number(identity.state_version);
  e.Number(static_cast<std::uint64_t>(identity.adapters.size()));
  for (const AdapterIdentity& adapter : identity.adapters) {
    e.Content(adapter.content);
    e.Real(adapter.scale);
  }
  return e.Take();
}

Namespace MakeNamespace(const Identity& identity, std::string_view tenant_salt) {
  const std::vector<std::byte> encoding = EncodeIdentity(identity);
  Encoder e;
  e.Text(kNamespaceMagic);
  e.Number(static_cast<std::uint64_t>(encoding.size()));
  const std::vector<std::byte> head = e.Take();
  Encoder tail;
  tail.Text(tenant_salt);
  Blake3Hasher hasher;
  hasher.Update(head);
  hasher.Update(encoding);
  hasher.Update(tail.Take());
  return Namespace{hasher.Finish()};
}

}  // namespace skippy
