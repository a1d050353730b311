// Which state bytes may stand for which: everything that can change them, in one canonical
// encoding.
//
// Two runs share cached state only if their identities are equal in every field (invariant I1). The
// encoding is versioned: a new field is a new kIdentityVersion, so old keys can never mean the new
// thing. Never a path, a file name, a time or a process-random seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "skippy/digest.h"
#include "skippy/types.h"

namespace skippy {

inline constexpr std::uint32_t kIdentityVersion = 1;

struct AdapterIdentity {
  Digest content;
  float scale = 1.0F;
  bool operator==(const AdapterIdentity&) const = default;
};

struct Identity {
  Digest model;               // content of the weights file(s)
  Digest tokenizer;           // tokenizer metadata
  std::string architecture;   // general.architecture
  std::string runtime_build;  // llama.cpp commit and the build facts that change numerics
  std::string device;         // backend and device kind
  std::string kv_type_k;      // e.g. "f16"
  std::string kv_type_v;
  bool flash_attention = true;
  std::string rope;  // rope/yarn overrides, canonical text; empty: the model's own
  bool swa_full = false;
  std::uint32_t streams = 1;      // number of isolated streams (1 when unified)
  std::uint32_t context = 0;      // cells a lane: decides ring sizes and attention padding
  std::uint32_t chunk = 0;        // prefill grid
  std::uint32_t threads = 0;      // compute threads: split-KV reductions depend on them
  std::uint32_t layer_begin = 0;  // absolute layer range held by this runtime
  std::uint32_t layer_end = 0;
  std::string topology;             // "whole" or the stage layout
  std::uint32_t state_version = 0;  // layout version of exported payloads
  std::vector<AdapterIdentity>
      adapters;  // in order of application; zero scales are left out by the caller
  bool operator==(const Identity&) const = default;
};

// Length-framed little-endian encoding; equal identities, and only those, have equal encodings.
std::vector<std::byte> EncodeIdentity(const Identity& identity);

// A cache namespace: identity plus tenant salt. Different salts never see each other's entries.
struct Namespace {
  Digest key;
  auto operator<=>(const Namespace&) const = default;
};
Namespace MakeNamespace(const Identity& identity, std::string_view tenant_salt);

}  // namespace skippy

template <>
struct std::hash<skippy::Namespace> {
  std::size_t operator()(const skippy::Namespace& n) const {
    return std::hash<skippy::Digest>{}(n.key);
  }
};
