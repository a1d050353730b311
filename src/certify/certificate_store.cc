#include "certify/certificate_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "skippy/random.h"

namespace skippy::certify {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

tl::unexpected<Error> CannotWrite(const std::string& path) {
  return Err(ErrorCode::kUnavailable,
             fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
}

bool WriteAll(int file, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(file, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    done += static_cast<std::size_t>(written);
  }
  return ::fsync(file) == 0;
}

bool SaysLess(const Certificate& fresh, const Certificate& kept) {
  if (fresh.mode == Mode::kFull || kept.mode == Mode::kQuick) return false;
  for (const Exactness exactness : {Exactness::kToken, Exactness::kBit}) {
    if (fresh.verdict(exactness) && !fresh.Certifies(exactness)) return false;
    // What the kept one has not tried, the fresh one adds.
    if (fresh.verdict(exactness) && !kept.verdict(exactness)) return false;
  }
  return true;
}

}  // namespace

std::string DefaultCertificateFolder() {
  const std::string cache = Environment("XDG_CACHE_HOME");
  if (!cache.empty()) return cache + "/skippy/certificates";
  const std::string home = Environment("HOME");
  return (home.empty() ? std::string(".") : home) + "/.cache/skippy/certificates";
}

Result<Certificate> ReadCertificateFile(const std::string& path) {
  std::error_code code;
  if (!std::filesystem::exists(path, code))
    return Err(ErrorCode::kNotFound, fmt::format("there is no certificate '{}'", path));
  if (std::filesystem::is_directory(path, code))
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}' is a folder; name the certificate's file in it", path));
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return Err(ErrorCode::kUnavailable, fmt::format("cannot read '{}'", path));
  Result<Certificate> certificate = Parse(text.str());
  if (!certificate) {
    return Err(certificate.error().code,
               fmt::format("'{}': {}", path, certificate.error().message));
  }
  return certificate;
}

Status WriteFileWhole(const std::string& path, const std::string& text) {
  const std::string temporary = fmt::format("{}.{:016x}.tmp", path, RandomBits());
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return CannotWrite(temporary);
  bool done = WriteAll(file, text);
  done = ::close(file) == 0 && done;
  if (done && std::rename(temporary.c_str(), path.c_str()) == 0) return {};
  const auto error = CannotWrite(path);
  ::unlink(temporary.c_str());
  return error;
}

std::string CertificateStore::PathOf(const Identity& identity) const {
  return fmt::format("{}/{}.json", folder_, IdentityDigest(identity).Hex());
}

Result<Certificate> CertificateStore::Load(const Identity& identity) const {
  const std::string path = PathOf(identity);
  SKIPPY_TRY(Certificate certificate, ReadCertificateFile(path));
  if (const Status valid = Validate(certificate, identity); !valid)
    return Err(valid.error().code, fmt::format("'{}': {}", path, valid.error().message));
  return certificate;
}

Result<std::string> CertificateStore::Save(const Certificate& certificate) const {
  std::error_code code;
  std::filesystem::create_directories(folder_, code);
  if (code) {
    return Err(ErrorCode::kUnavailable,
               fmt::format("cannot make the folder '{}': {}", folder_, code.message()));
  }
  const std::string path = PathOf(certificate.identity);
  const Result<Certificate> kept = Load(certificate.identity);
  if (kept && SaysLess(certificate, *kept)) return path;
  SKIPPY_RETURN_IF_ERROR(WriteFileWhole(path, Write(certificate)));
  return path;
}

}  // namespace skippy::certify
