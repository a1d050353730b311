// CertificateStore: certificates in a folder, one file an identity, named by the identity's digest.
//
// Guarantees: a file is written beside its place and renamed, so a reader sees the old or the new
// one, whole. A quick certificate that keeps its promise does not replace a full one that is intact
// and about the same identity: it says less.
// Threads: none of its own; several processes may share a folder. Errors: kNotFound (no certificate
// of this identity), those of Parse and Validate with the file's path in front, kUnavailable (the
// folder cannot be read or written).
#pragma once

#include <string>

#include "certify/certificate.h"
#include "skippy/identity.h"
#include "skippy/result.h"

namespace skippy::certify {

// $XDG_CACHE_HOME/skippy/certificates, or ~/.cache/skippy/certificates.
std::string DefaultCertificateFolder();

class CertificateStore {
 public:
  explicit CertificateStore(std::string folder) : folder_(std::move(folder)) {}

  std::string PathOf(const Identity& identity) const;
  Result<Certificate> Load(const Identity& identity) const;
  // Makes the folder if need be. Returns the path.
  Result<std::string> Save(const Certificate& certificate) const;

 private:
  std::string folder_;
};

// kNotFound or kUnavailable, else what Parse says, with the path in front.
Result<Certificate> ReadCertificateFile(const std::string& path);
// By a temporary file beside it and a rename.
Status WriteFileWhole(const std::string& path, const std::string& text);

}  // namespace skippy::certify
