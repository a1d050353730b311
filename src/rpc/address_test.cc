#include "rpc/address.h"

#include <gtest/gtest.h>

namespace skippy::rpc {
namespace {

TEST(Address, ReadsWhatItWrites) {
  EXPECT_EQ(*ParseAddress("gpu-1.lan:7000"), (Address{"gpu-1.lan", 7000, std::nullopt}));
  EXPECT_EQ(*ParseAddress("10.0.0.2:0"), (Address{"10.0.0.2", 0, std::nullopt}));
  EXPECT_EQ(*ParseAddress("[::1]:65535"), (Address{"::1", 65535, std::nullopt}));
  EXPECT_EQ(*ParseAddress("host:1/0..20"), (Address{"host", 1, pipeline::LayerRange{0, 20}}));
  EXPECT_EQ(*ParseAddress("[fe80::2]:1/3..4"), (Address{"fe80::2", 1, pipeline::LayerRange{3, 4}}));
  EXPECT_EQ(HostPort("host", 1), "host:1");
  EXPECT_EQ(HostPort("fe80::2", 1), "[fe80::2]:1");
}

TEST(Address, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "host"},
      {":7000", "host"},
      {"host", "port is missing"},
      {"host:", "port"},
      {"host:65536", "port"},
      {"host:-1", "port"},
      {"host:7x", "port"},
      {"host:7000/", "range"},
      {"host:7000/20", "range"},
      {"host:7000/20..20", "range"},
      {"host:7000/20..10", "range"},
      {"host:7000/0..20x", "range"},
      {"host:7000/0..4294967296", "range"},
      {"::1:7000", "brackets"},
      {"[::1]", "port is missing"},
      {"[::1:7000", "closed"},
      {"[host]:7000", "IPv6"},
      {"[::1]7000", "port is missing"},
      {"http://host:7000", "range"},
      {"ho st:7000", "character"},
      {"host%25:7000", "character"},
  };
  for (const auto& [text, word] : cases) {
    const auto parsed = ParseAddress(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(parsed.error().message.find(word), std::string::npos) << parsed.error().message;
    EXPECT_NE(parsed.error().message.find(std::string("'") + text + "'"), std::string::npos);
  }
}

TEST(Address, KnowsWhatOnlyThisMachineReaches) {
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3", "::1"})
    EXPECT_TRUE(IsLoopback(host)) << host;
  for (const char* host : {"", "0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "fe80::1", "gpu-1",
                           "localhost.example.org", "127.0.0.1.example.org"})
    EXPECT_FALSE(IsLoopback(host)) << host;
}

}  // namespace
}  // namespace skippy::rpc
