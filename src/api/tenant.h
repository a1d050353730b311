// Who may share cached prefixes with whom. Pure.
#pragma once

#include <string>
#include <string_view>

namespace skippy::api {

struct TenantOptions {
  bool shared_cache = false;  // all API keys share one namespace
};

// The salt of the cache namespace of a request. With API keys the key decides, unless the cache is
// shared; the client's cache_salt refines and can never replace it. Both parts are framed by their
// lengths, so that no salt of one key can equal another key. Empty when there is nothing to tell
// apart. The result is a digest: keys do not live on in the cache.
std::string TenantSalt(std::string_view api_key, std::string_view cache_salt,
                       TenantOptions options);

// The key of a request: "Authorization: Bearer KEY", or Anthropic's "X-Api-Key". Empty: none given.
std::string KeyFromHeaders(std::string_view authorization, std::string_view x_api_key);

// Compares in time that does not depend on where the strings differ.
bool SameKey(std::string_view a, std::string_view b);

}  // namespace skippy::api
