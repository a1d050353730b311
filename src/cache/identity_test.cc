#include "skippy/identity.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

namespace skippy {
namespace {

Digest DigestOf(std::string_view text) {
  return Blake3(std::as_bytes(std::span(text.data(), text.size())));
}

Identity Example() {
  Identity identity;
  identity.model = DigestOf("model");
  identity.tokenizer = DigestOf("tokenizer");
  identity.architecture = std::string("llama");
  identity.runtime_build = std::string("de3ff815+avx2");
  identity.device = std::string("cpu");
  identity.kv_type_k = std::string("f16");
  identity.kv_type_v = std::string("f16");
  identity.flash_attention = true;
  identity.rope = std::string("");
  identity.swa_full = false;
  identity.streams = 4;
  identity.context = 4096;
  identity.chunk = 512;
  identity.threads = 1;
  identity.layer_begin = 0;
  identity.layer_end = 30;
  identity.topology = std::string("whole");
  identity.state_version = 1;
  identity.adapters = {{DigestOf("adapter"), 0.5F}};
  return identity;
}

// One change for each field. The structured binding stops compiling when a field is added, so that
// whoever adds one also adds it to the encoding, to kIdentityVersion and here.
std::vector<std::function<void(Identity&)>> ChangesOfEveryField() {
  Identity example;
  [[maybe_unused]] auto& [model, tokenizer, architecture, build, device, k, v, fa, rope, swa,
                          streams, context, chunk, threads, begin, end, topology, state, adapters] =
      example;
  return {
      [](Identity& i) { i.model = DigestOf("other"); },
      [](Identity& i) { i.tokenizer = DigestOf("other"); },
      [](Identity& i) { i.architecture = std::string("x"); },
      [](Identity& i) { i.runtime_build = std::string("x"); },
      [](Identity& i) { i.device = std::string("x"); },
      [](Identity& i) { i.kv_type_k = std::string("q8_0"); },
      [](Identity& i) { i.kv_type_v = std::string("q8_0"); },
      [](Identity& i) { i.flash_attention = !i.flash_attention; },
      [](Identity& i) { i.rope = std::string("yarn"); },
      [](Identity& i) { i.swa_full = !i.swa_full; },
      [](Identity& i) { ++i.streams; },
      [](Identity& i) { ++i.context; },
      [](Identity& i) { ++i.chunk; },
      [](Identity& i) { ++i.threads; },
      [](Identity& i) { ++i.layer_begin; },
      [](Identity& i) { ++i.layer_end; },
      [](Identity& i) { i.topology = std::string("x"); },
      [](Identity& i) { ++i.state_version; },
      [](Identity& i) { i.adapters[0].scale = 0.25F; },
      [](Identity& i) { i.adapters[0].content = DigestOf("other"); },
      [](Identity& i) { i.adapters.push_back(i.adapters[0]); },
      [](Identity& i) { i.adapters.clear(); },
  };
}

TEST(IdentityTest, EveryFieldChangesTheKey) {
  std::set<Digest> keys{MakeNamespace(Example(), "").key};
  for (const auto& change : ChangesOfEveryField()) {
    Identity changed = Example();
    change(changed);
    EXPECT_TRUE(keys.insert(MakeNamespace(changed, "").key).second);
  }
}

TEST(IdentityTest, EqualIdentitiesHaveEqualKeys) {
  EXPECT_EQ(EncodeIdentity(Example()), EncodeIdentity(Example()));
  EXPECT_EQ(MakeNamespace(Example(), "tenant"), MakeNamespace(Example(), "tenant"));
  Identity negative_zero = Example();
  negative_zero.adapters[0].scale = -0.0F;
  Identity zero = Example();
  zero.adapters[0].scale = 0.0F;
  ASSERT_EQ(negative_zero, zero);
  EXPECT_EQ(EncodeIdentity(negative_zero), EncodeIdentity(zero));
}

TEST(IdentityTest, TextThatMovesToTheNextFieldChangesTheKey) {
  Identity a = Example();
  a.architecture = std::string("ab");
  a.runtime_build = std::string("c");
  Identity b = Example();
  b.architecture = std::string("a");
  b.runtime_build = std::string("bc");
  EXPECT_NE(EncodeIdentity(a), EncodeIdentity(b));
}

TEST(IdentityTest, AdapterOrderChangesTheKey) {
  Identity a = Example();
  a.adapters = {{DigestOf("x"), 1.0F}, {DigestOf("y"), 1.0F}};
  Identity b = a;
  std::swap(b.adapters[0], b.adapters[1]);
  EXPECT_NE(MakeNamespace(a, "").key, MakeNamespace(b, "").key);
}

TEST(IdentityTest, SaltsSeparateTenants) {
  std::set<Digest> keys;
  for (const char* salt : {"", "a", "b", "ab", "a\n"}) {
    EXPECT_TRUE(keys.insert(MakeNamespace(Example(), salt).key).second);
  }
  EXPECT_TRUE(keys.insert(MakeNamespace(Example(), std::string_view("a\0", 2)).key).second);
}

// Computed by an independent implementation of the encoding and of BLAKE3. Changes only together
// with kIdentityVersion: stored keys of an older version must never mean a new thing.
TEST(IdentityTest, GoldenKeyOfVersionOne) {
  ASSERT_EQ(kIdentityVersion, 1U);
  EXPECT_EQ(EncodeIdentity(Example()).size(), 253U);
  EXPECT_EQ(MakeNamespace(Example(), "tenant").key.Hex(),
            "b1d414bb3e7dc86eb4c046947772c34d4e12872ea1aee4237c481fddb95d243c");
}

}  // namespace
}  // namespace skippy
