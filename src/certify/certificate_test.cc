#include "certify/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "certify/certificate_store.h"
#include "certify/report.h"
#include "skippy/random.h"

namespace skippy::certify {
namespace {

using testing::HasSubstr;

Certificate Sample() {
  Certificate certificate;
  certificate.tool = "0.1.0";
  certificate.date = "2026-01-31T12:00:00Z";
  certificate.identity.model.bytes[0] = 7;
  certificate.identity.architecture = "llama";
  certificate.identity.kv_type_k = "f16";
  certificate.identity.kv_type_v = "q8_0";
  certificate.identity.streams = 2;
  certificate.identity.context = 1024;
  certificate.identity.chunk = 64;
  certificate.identity.threads = 3;
  certificate.identity.adapters = {{Digest{}, 0.1F}};
  certificate.shape.kv_row_bytes = 4096;
  certificate.bit = Verdict::kBit;
  certificate.token = Verdict::kToken;
  Row row;
  row.group = "tier matrix";
  row.tier = "host pages";
  row.scenario = "append";
  row.promise = Promise::kToken;
  row.verdict = Verdict::kToken;
  row.largest_difference = 0.1;
  row.smallest_margin = std::numeric_limits<double>::infinity();
  row.first_difference = 321;
  row.compared = 8;
  row.prompt_tokens = 300;
  row.cached_tokens = 256;
  row.evaluated_tokens = 44;
  certificate.rows = {row};
  certificate.economics = Economics{};
  certificate.economics->points = {{128, true, 512, 0.25, 3.5, 4.0, 8.0}, {4096, false, 1, 2, 3}};
  certificate.economics->break_even_tokens = 12;
  return certificate;
}

std::string Changed(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(CertificateTest, WhatWasWrittenIsRead) {
  const Certificate certificate = Sample();
  const Result<Certificate> read = Parse(Write(certificate));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, certificate);
  EXPECT_EQ(Write(*read), Write(certificate));
}

TEST(CertificateTest, ASettingThatWasNotTriedHasNoVerdict) {
  Certificate certificate = Sample();
  certificate.bit.reset();
  certificate.economics.reset();
  const Result<Certificate> read = Parse(Write(certificate));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, certificate);
  EXPECT_FALSE(read->Certifies(Exactness::kBit));
  EXPECT_TRUE(read->Certifies(Exactness::kToken));
}

TEST(CertificateTest, AnyChangeIsDamage) {
  const std::string text = Write(Sample());
  for (const auto& [from, to] : {std::pair{"\"cached_tokens\": 256", "\"cached_tokens\": 257"},
                                 std::pair{"\"bit\": \"bit\"", "\"bit\": \"token\""},
                                 std::pair{"\"verdict\": \"token\"", "\"verdict\": \"bit\""},
                                 std::pair{"2026-01-31", "2026-02-01"}}) {
    const Result<Certificate> read = Parse(Changed(text, from, to));
    ASSERT_FALSE(read) << from;
    EXPECT_EQ(read.error().code, ErrorCode::kCorruption);
    EXPECT_THAT(read.error().message, HasSubstr("checksum"));
  }
}

TEST(CertificateTest, EveryTruncationIsAnError) {
  const std::string text = Write(Sample());
  for (std::size_t length = 0; length + 2 < text.size(); length += 7)
    EXPECT_FALSE(Parse(std::string_view(text).substr(0, length))) << length;
}

TEST(CertificateTest, OtherFilesAndVersionsAreToldApart) {
  EXPECT_EQ(Parse("not json").error().code, ErrorCode::kCorruption);
  EXPECT_EQ(Parse("[1, 2]").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(Parse("{\"schema\": \"something\"}").error().code, ErrorCode::kInvalidArgument);
  const std::string text = Write(Sample());
  const Result<Certificate> newer = Parse(Changed(text, "\"version\": 1\n}", "\"version\": 2\n}"));
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(newer.error().message, HasSubstr("version 2"));
  EXPECT_THAT(newer.error().message, HasSubstr("reads version 1"));
}

TEST(CertificateTest, AForeignIdentityIsNamedByItsFirstFieldThatDiffers) {
  const Certificate certificate = Sample();
  EXPECT_TRUE(Validate(certificate, certificate.identity));
  const auto refused = [&](auto change, const char* words) {
    Identity other = certificate.identity;
    change(other);
    const Status status = Validate(certificate, other);
    ASSERT_FALSE(status) << words;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.error().message, HasSubstr(words));
  };
  refused([](Identity& i) { i.model.bytes[0] = 8; }, "the model's digest is 0800");
  refused([](Identity& i) { i.tokenizer.bytes[3] = 1; }, "the tokenizer's digest");
  refused([](Identity& i) { i.architecture = "qwen3"; }, "architecture is qwen3 here and llama in");
  refused([](Identity& i) { i.runtime_build = "x"; }, "runtime build is x here and (none)");
  refused([](Identity& i) { i.device = "GPU"; }, "the device is GPU");
  refused([](Identity& i) { i.kv_type_k = "q4_0"; }, "the type of K is q4_0 here and f16");
  refused([](Identity& i) { i.kv_type_v = "f16"; }, "the type of V is f16 here and q8_0");
  refused([](Identity& i) { i.flash_attention = false; }, "flash attention is off here and on");
  refused([](Identity& i) { i.rope = "yarn"; }, "the rope setting");
  refused([](Identity& i) { i.swa_full = true; }, "swa_full is on");
  refused([](Identity& i) { i.streams = 1; }, "the number of lanes is 1 here and 2");
  refused([](Identity& i) { i.context = 2048; }, "the context of a lane is 2048 here and 1024");
  refused([](Identity& i) { i.chunk = 128; }, "the chunk is 128 here and 64");
  refused([](Identity& i) { i.threads = 1; }, "the number of threads is 1 here and 3");
  refused([](Identity& i) { i.layer_begin = 1; }, "the first layer");
  refused([](Identity& i) { i.layer_end = 9; }, "the end of the layers");
  refused([](Identity& i) { i.topology = "stages"; }, "the topology");
  refused([](Identity& i) { i.state_version = 2; }, "the state layout's version");
  refused([](Identity& i) { i.adapters.clear(); }, "the list of adapters is (none)");
}

TEST(CertificateTest, TheFirstFailureIsOneSentence) {
  Certificate certificate = Sample();
  EXPECT_EQ(certificate.FirstFailure(Exactness::kToken), "");
  certificate.rows[0].verdict = Verdict::kFail;
  certificate.rows[0].reason = "the tokens differ";
  certificate.token = Verdict::kFail;
  EXPECT_EQ(certificate.FirstFailure(Exactness::kToken),
            "tier matrix / host pages / append (token): the tokens differ first at position 321");
  EXPECT_THAT(TextReport(certificate, false), HasSubstr("the tokens differ"));
  EXPECT_THAT(MarkdownReport(certificate), HasSubstr("| host pages | append | token | fail |"));
}

class StoreTest : public testing::Test {
 protected:
  StoreTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("skippy-certificates-" + std::to_string(RandomBits()))),
        store_(folder_.string()) {}
  ~StoreTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
  CertificateStore store_;
};

TEST_F(StoreTest, FindsByIdentity) {
  const Certificate certificate = Sample();
  EXPECT_EQ(store_.Load(certificate.identity).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(store_.Save(certificate));
  const Result<Certificate> found = store_.Load(certificate.identity);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found, certificate);
  Identity other = certificate.identity;
  other.threads = 9;
  EXPECT_EQ(store_.Load(other).error().code, ErrorCode::kNotFound);
  // Nothing but the certificate is left in the folder.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(StoreTest, AFileOfAnotherIdentityInItsPlaceIsRefused) {
  const Certificate certificate = Sample();
  Identity other = certificate.identity;
  other.chunk = 128;
  ASSERT_TRUE(store_.Save(certificate));
  std::filesystem::rename(store_.PathOf(certificate.identity), store_.PathOf(other));
  const Result<Certificate> found = store_.Load(other);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(found.error().message, HasSubstr("the chunk is 128 here and 64"));
  EXPECT_THAT(found.error().message, HasSubstr(store_.PathOf(other)));
}

TEST_F(StoreTest, ADamagedFileIsToldWithItsPathAndReplaced) {
  const Certificate certificate = Sample();
  ASSERT_TRUE(store_.Save(certificate));
  const std::string path = store_.PathOf(certificate.identity);
  std::ofstream(path) << Write(certificate).substr(0, 200);
  const Result<Certificate> found = store_.Load(certificate.identity);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kCorruption);
  EXPECT_THAT(found.error().message, HasSubstr(path));
  ASSERT_TRUE(store_.Save(certificate));
  EXPECT_TRUE(store_.Load(certificate.identity));
}

TEST_F(StoreTest, AQuickOneDoesNotReplaceAFullOneUnlessItSaysOtherwise) {
  const Certificate full = Sample();
  ASSERT_TRUE(store_.Save(full));
  Certificate quick = Sample();
  quick.mode = Mode::kQuick;
  ASSERT_TRUE(store_.Save(quick));
  EXPECT_EQ(store_.Load(full.identity)->mode, Mode::kFull);
  quick.token = Verdict::kFail;
  ASSERT_TRUE(store_.Save(quick));
  EXPECT_EQ(store_.Load(full.identity)->mode, Mode::kQuick);
  ASSERT_TRUE(store_.Save(full));
  EXPECT_EQ(store_.Load(full.identity)->mode, Mode::kFull);
}

TEST_F(StoreTest, AFolderThatCannotBeMadeIsAnError) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "file") << "x";
  const Result<std::string> saved =
      CertificateStore((folder_ / "file" / "in").string()).Save(Sample());
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, ErrorCode::kUnavailable);
}

TEST_F(StoreTest, AFolderIsNoCertificate) {
  std::filesystem::create_directories(folder_);
  const Result<Certificate> found = ReadCertificateFile(folder_.string());
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(found.error().message, HasSubstr("is a folder"));
}

TEST(StoreFolderTest, FollowsTheEnvironment) {
  setenv("XDG_CACHE_HOME", "/nowhere/cache", 1);
  EXPECT_EQ(DefaultCertificateFolder(), "/nowhere/cache/skippy/certificates");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/nowhere/home", 1);
  EXPECT_EQ(DefaultCertificateFolder(), "/nowhere/home/.cache/skippy/certificates");
}

}  // namespace
}  // namespace skippy::certify
