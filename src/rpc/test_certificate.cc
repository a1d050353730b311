#include "rpc/test_certificate.h"

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

namespace skippy::rpc {
namespace {

template <auto kFree>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

constexpr long kSecondsBefore = -3600;
constexpr long kSecondsAfter = 24L * 3600;

std::string Text(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

void AddExtension(X509* certificate, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value));
  EXPECT_TRUE(extension);
  EXPECT_EQ(X509_add_ext(certificate, extension.get(), -1), 1);
}

Certificate SelfSigned(EVP_PKEY* key, const std::string& ip) {
  Certificate certificate(X509_new());
  X509* const x = certificate.get();
  X509_set_version(x, X509_VERSION_3);
  std::uint32_t serial = 0;
  EXPECT_EQ(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial), 1);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(x), serial);
  X509_gmtime_adj(X509_getm_notBefore(x), kSecondsBefore);
  X509_gmtime_adj(X509_getm_notAfter(x), kSecondsAfter);
  X509_set_pubkey(x, key);
  // Of this one alone: an issuer of the same name and another key would be "a bad signature".
  const std::string name = "stage " + std::to_string(serial);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(x, X509_get_subject_name(x));
  AddExtension(x, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(x, NID_subject_alt_name, ("IP:" + ip).c_str());
  EXPECT_GT(X509_sign(x, key, EVP_sha256()), 0);
  return certificate;
}

}  // namespace

TestCertificate::TestCertificate(const std::string& ip) {
  std::string name = (std::filesystem::temp_directory_path() / "skippy-rpc-XXXXXX").string();
  EXPECT_NE(mkdtemp(name.data()), nullptr);
  folder_ = name;
  const Key pair(EVP_EC_gen("P-256"));
  const Certificate signed_one = SelfSigned(pair.get(), ip);
  const Bio pem(BIO_new(BIO_s_mem()));
  EXPECT_EQ(PEM_write_bio_X509(pem.get(), signed_one.get()), 1);
  Write("certificate.pem", Text(pem.get()));
  const Bio key_pem(BIO_new(BIO_s_mem()));
  EXPECT_EQ(
      PEM_write_bio_PrivateKey(key_pem.get(), pair.get(), nullptr, nullptr, 0, nullptr, nullptr),
      1);
  Write("key.pem", Text(key_pem.get()));
}

TestCertificate::~TestCertificate() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string TestCertificate::Write(const std::string& name, const std::string& text) const {
  const std::string path = folder_ + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

}  // namespace skippy::rpc
