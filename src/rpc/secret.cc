#include "rpc/secret.h"

#include <algorithm>
#include <span>

#include "skippy/digest.h"

namespace skippy::rpc {

std::string Bearer(std::string_view secret) { return "Bearer " + std::string(secret); }

Status CheckSecret(std::string_view secret) {
  if (std::all_of(secret.begin(), secret.end(), [](char c) { return c > ' ' && c <= '~'; }))
    return {};
  return Err(ErrorCode::kInvalidArgument,
             "the secret of stages may have letters, digits and signs of ASCII only, no spaces");
}

bool SameSecret(std::string_view a, std::string_view b) {
  // Digests are equally long whatever the secrets are, and differ in unforeseeable places.
  const Digest x = Blake3(std::as_bytes(std::span(a)));
  const Digest y = Blake3(std::as_bytes(std::span(b)));
  unsigned differences = 0;
  for (std::size_t i = 0; i < x.bytes.size(); ++i)
    differences |= static_cast<unsigned>(x.bytes[i] ^ y.bytes[i]);
  return differences == 0;
}

}  // namespace skippy::rpc
