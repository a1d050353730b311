// Certificate: what was tried on one identity and what came of it, as a file that binds to that
// identity.
//
// Format: JSON, schema "skippy-certificate" with a version (docs/certificate.md), and a BLAKE3
// checksum over the canonical text (keys sorted, no blanks, without the checksum). It protects
// against damage and stray edits, not against a forger: a certificate is believed as far as the
// folder that it lies in.
//
// Threads: pure functions. Errors of Parse and Validate say what is wrong in one sentence:
// kCorruption (not JSON, a field missing or of the wrong kind, checksum), kUnsupported (another
// schema version), kInvalidArgument (not a certificate; for Validate, a foreign one: the first
// field that differs, with both values).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "certify/economics.h"
#include "certify/row.h"
#include "skippy/identity.h"
#include "skippy/memory_shape.h"
#include "skippy/result.h"

namespace skippy::certify {

inline constexpr std::string_view kCertificateSchema = "skippy-certificate";
inline constexpr std::uint32_t kCertificateVersion = 1;

enum class Mode : std::uint8_t { kFull = 0, kQuick };
std::string_view ModeName(Mode mode);

struct Certificate {
  std::string tool;  // version of the program that tried
  std::string date;  // UTC, e.g. "2026-01-31T12:00:00Z"
  Mode mode = Mode::kFull;
  std::uint64_t seed = 1;
  Identity identity;
  MemoryShape shape;
  PayloadPolicy policy = PayloadPolicy::kResidentKv;
  std::string policy_reason;
  // What was tried; a setting that was not has no verdict.
  std::optional<Verdict> bit;
  std::optional<Verdict> token;
  std::vector<Row> rows;
  std::optional<Economics> economics;

  const std::optional<Verdict>& verdict(Exactness exactness) const {
    return exactness == Exactness::kBit ? bit : token;
  }
  // Whether the setting was tried and keeps its promise.
  bool Certifies(Exactness exactness) const {
    return verdict(exactness) && Keeps(*verdict(exactness), exactness);
  }
  // The first row that breaks the setting's promise, as one sentence; empty when none does.
  std::string FirstFailure(Exactness exactness) const;
  // Rows whose tokens differ from the cold run's where its two best lay within the noise.
  std::size_t Ties(Exactness exactness) const;

  bool operator==(const Certificate&) const = default;
};

Digest IdentityDigest(const Identity& identity);

std::string Write(const Certificate& certificate);
Result<Certificate> Parse(std::string_view text);
// Whether the certificate is about this identity.
Status Validate(const Certificate& certificate, const Identity& identity);

}  // namespace skippy::certify
