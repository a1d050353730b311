#include "api/tenant.h"

#include <cstdint>
#include <span>

#include "skippy/digest.h"

namespace skippy::api {
namespace {

void UpdateFramed(Blake3Hasher& hasher, std::string_view part) {
  std::uint64_t length = part.size();
  std::byte frame[8];
  for (std::byte& b : frame) {
    b = static_cast<std::byte>(length & 0xFFU);
    length >>= 8U;
  }
  hasher.Update(frame);
  hasher.Update(std::as_bytes(std::span(part.data(), part.size())));
}

}  // namespace

std::string TenantSalt(std::string_view api_key, std::string_view cache_salt,
                       TenantOptions options) {
  if (options.shared_cache) api_key = {};
  if (api_key.empty() && cache_salt.empty()) return {};
  Blake3Hasher hasher;
  UpdateFramed(hasher, "skippy tenant 1");
  UpdateFramed(hasher, api_key);
  UpdateFramed(hasher, cache_salt);
  return hasher.Finish().Hex();
}

std::string KeyFromHeaders(std::string_view authorization, std::string_view x_api_key) {
  std::string_view key = authorization.empty() ? x_api_key : authorization;
  constexpr std::string_view kBearer = "Bearer ";
  if (key.starts_with(kBearer)) key.remove_prefix(kBearer.size());
  return std::string(key);
}

bool SameKey(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |=
        static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  }
  return difference == 0;
}

}  // namespace skippy::api
