// A self-signed certificate for an address, with its key, in files that live as long as the object.
#pragma once

#include <string>

namespace skippy::rpc {

class TestCertificate {
 public:
  explicit TestCertificate(const std::string& ip = "127.0.0.1");
  TestCertificate(const TestCertificate&) = delete;
  TestCertificate& operator=(const TestCertificate&) = delete;
  ~TestCertificate();

  std::string certificate() const { return folder_ + "/certificate.pem"; }
  std::string key() const { return folder_ + "/key.pem"; }
  // Another file beside them; its path.
  std::string Write(const std::string& name, const std::string& text) const;

 private:
  std::string folder_;
};

}  // namespace skippy::rpc
