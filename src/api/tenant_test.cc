#include "api/tenant.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace skippy::api {
namespace {

constexpr TenantOptions kOwn{};
constexpr TenantOptions kShared{.shared_cache = true};

TEST(TenantSalt, NothingToTellApartIsTheCommonNamespace) {
  EXPECT_EQ(TenantSalt("", "", kOwn), "");
  EXPECT_EQ(TenantSalt("key", "", kShared), "");
}

TEST(TenantSalt, KeysHaveNamespacesOfTheirOwn) {
  EXPECT_NE(TenantSalt("alice", "", kOwn), TenantSalt("bob", "", kOwn));
  EXPECT_EQ(TenantSalt("alice", "", kOwn), TenantSalt("alice", "", kOwn));
}

TEST(TenantSalt, SaltRefinesTheKeyAndNeverReplacesIt) {
  EXPECT_NE(TenantSalt("alice", "s", kOwn), TenantSalt("alice", "", kOwn));
  EXPECT_NE(TenantSalt("alice", "s", kOwn), TenantSalt("bob", "s", kOwn));
}

TEST(TenantSalt, SharedCacheForgetsTheKeyAndKeepsTheSalt) {
  EXPECT_EQ(TenantSalt("alice", "s", kShared), TenantSalt("bob", "s", kShared));
  EXPECT_NE(TenantSalt("alice", "s", kShared), TenantSalt("alice", "t", kShared));
}

TEST(TenantSalt, DoesNotContainTheKey) {
  EXPECT_EQ(TenantSalt("sk-secret", "", kOwn).find("sk-secret"), std::string::npos);
}

// No salt of one key can reach another pair of key and salt.
RC_GTEST_PROP(TenantSaltProperty, DifferentPairsHaveDifferentSalts,
              (const std::string& key_a, const std::string& salt_a, const std::string& key_b,
               const std::string& salt_b)) {
  RC_PRE(key_a != key_b || salt_a != salt_b);
  RC_ASSERT(TenantSalt(key_a, salt_a, kOwn) != TenantSalt(key_b, salt_b, kOwn));
}

RC_GTEST_PROP(TenantSaltProperty, MovingTheBorderBetweenKeyAndSaltGivesAnother,
              (std::string text)) {
  RC_PRE(text.size() >= 2U);
  const std::size_t cut = *rc::gen::inRange<std::size_t>(1, text.size());
  RC_ASSERT(TenantSalt(text.substr(0, cut), text.substr(cut), kOwn) != TenantSalt(text, "", kOwn));
}

TEST(KeyFromHeaders, ReadsBothForms) {
  EXPECT_EQ(KeyFromHeaders("Bearer abc", ""), "abc");
  EXPECT_EQ(KeyFromHeaders("", "abc"), "abc");
  EXPECT_EQ(KeyFromHeaders("Bearer abc", "other"), "abc");
  EXPECT_EQ(KeyFromHeaders("", ""), "");
}

TEST(SameKey, ComparesWholeStrings) {
  EXPECT_TRUE(SameKey("abc", "abc"));
  EXPECT_FALSE(SameKey("abc", "abd"));
  EXPECT_FALSE(SameKey("abc", "ab"));
  EXPECT_FALSE(SameKey("", "a"));
}

}  // namespace
}  // namespace skippy::api
