// Certification of the fake runtime: sound ones pass in every shape and every lane of evidence that
// applies; spoilt ones turn the right rows red and leave the others green.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "certify/certify.h"
#include "certify/fake_subject.h"
#include "certify/report.h"

namespace skippy::certify_test {
namespace {

using certify::Certificate;
using certify::Certify;
using certify::Promise;
using certify::Row;
using certify::RowName;
using certify::Settings;
using certify::Verdict;
using testing::HasSubstr;

Settings SmallSettings() {
  Settings settings;
  settings.runtime.lanes = 2;
  settings.continued = 12;
  settings.page_tokens = 8;
  settings.costs.lengths = {32, 128, 4096};
  return settings;
}

Certificate Tried(FakeSubject& subject, const Settings& settings) {
  Result<Certificate> certificate = Certify(subject, settings);
  EXPECT_TRUE(certificate) << (certificate ? "" : certificate.error().message);
  return certificate ? std::move(*certificate) : Certificate{};
}

std::set<std::string> GroupsThatPass(const Certificate& certificate) {
  std::set<std::string> groups;
  for (const Row& row : certificate.rows) {
    if (row.verdict == Verdict::kBit || row.verdict == Verdict::kToken) groups.insert(row.group);
  }
  return groups;
}

class SoundRuntimes : public testing::TestWithParam<ShapeKind> {};

TEST_P(SoundRuntimes, EveryRowOfTheBitPromiseIsBit) {
  FakeOptions options;
  options.shape = GetParam();
  options.shape_noise = true;
  FakeSubject subject(options);
  const Certificate certificate = Tried(subject, SmallSettings());
  for (const Row& row : certificate.rows) {
    if (row.promise == Promise::kToken) continue;
    EXPECT_THAT(row.verdict, testing::AnyOf(Verdict::kBit, Verdict::kNotApplicable))
        << RowName(row) << ": " << row.reason;
  }
  EXPECT_EQ(certificate.bit, Verdict::kBit) << certificate.FirstFailure(Exactness::kBit);
  EXPECT_TRUE(certificate.Certifies(Exactness::kBit));
}

TEST_P(SoundRuntimes, TokensAreTheColdRunsWithoutTies) {
  FakeOptions options;
  options.shape = GetParam();
  options.shape_noise = true;
  FakeSubject subject(options);
  const Certificate certificate = Tried(subject, SmallSettings());
  EXPECT_TRUE(certificate.Certifies(Exactness::kToken))
      << certificate.FirstFailure(Exactness::kToken);
  EXPECT_EQ(certificate.Ties(Exactness::kToken), 0U);
}

TEST_P(SoundRuntimes, EveryGroupIsReallyTried) {
  FakeOptions options;
  options.shape = GetParam();
  FakeSubject subject(options);
  const Certificate certificate = Tried(subject, SmallSettings());
  EXPECT_THAT(
      GroupsThatPass(certificate),
      testing::IsSupersetOf({"single step", "continuation", "state round trip", "tier matrix",
                             "interleaved lanes", "context filled to the end", "full_state"}));
  for (const Row& row : certificate.rows) {
    if (row.verdict == Verdict::kNotApplicable) {
      EXPECT_FALSE(row.reason.empty()) << RowName(row);
    } else if (row.group == "tier matrix") {
      EXPECT_GT(row.cached_tokens, 0U) << RowName(row) << ": " << row.reason;
    }
  }
}

TEST_P(SoundRuntimes, OneLaneIsCertifiedToo) {
  FakeOptions options;
  options.shape = GetParam();
  FakeSubject subject(options);
  Settings settings = SmallSettings();
  settings.runtime.lanes = 1;
  const Certificate certificate = Tried(subject, settings);
  EXPECT_TRUE(certificate.Certifies(Exactness::kBit)) << certificate.FirstFailure(Exactness::kBit);
  // What needs two lanes was tried on two.
  const auto copied =
      std::count_if(certificate.rows.begin(), certificate.rows.end(), [](const Row& row) {
        return row.tier == "sequence copy" && row.variation == "2 lanes" &&
               row.verdict == Verdict::kBit;
      });
  EXPECT_EQ(copied, 8);
  EXPECT_EQ(certificate.identity.context, options.context);
}

TEST_P(SoundRuntimes, TheSelfTestPassesAndLeavesTheLanesEmpty) {
  FakeOptions options;
  options.shape = GetParam();
  options.shape_noise = true;
  FakeSubject subject(options);
  FakeRuntime runtime(options);
  certify::QuickSettings settings;
  settings.exactness = {Exactness::kBit, Exactness::kToken};
  settings.page_tokens = 8;
  const auto text = [&](std::size_t count, std::uint64_t seed) {
    return subject.Text(count, seed);
  };
  const Result<Certificate> certificate = certify::QuickSelfTest(runtime, text, settings);
  ASSERT_TRUE(certificate) << certificate.error().message;
  EXPECT_TRUE(certificate->Certifies(Exactness::kBit))
      << certificate->FirstFailure(Exactness::kBit);
  EXPECT_TRUE(certificate->Certifies(Exactness::kToken))
      << certificate->FirstFailure(Exactness::kToken);
  for (std::uint32_t lane = 0; lane < options.lanes; ++lane)
    EXPECT_EQ(runtime.End(SeqId{lane}), 0U);
}

INSTANTIATE_TEST_SUITE_P(Shapes, SoundRuntimes, testing::ValuesIn(AllShapes()),
                         [](const testing::TestParamInfo<ShapeKind>& shape) {
                           return std::string(runtime::fake::ShapeKindName(shape.param));
                         });

struct Spoilt {
  Mutation mutation;
  ShapeKind shape;
  // Rows that must fail, by group and tier (empty: all tiers); rows that must not.
  std::vector<std::pair<std::string, std::string>> red;
  std::vector<std::pair<std::string, std::string>> green;
};

std::string SpoiltName(const testing::TestParamInfo<Spoilt>& info) {
  return std::string(MutationName(info.param.mutation)) + "_" +
         std::string(runtime::fake::ShapeKindName(info.param.shape));
}
void PrintTo(const Spoilt& spoilt, std::ostream* out) { *out << MutationName(spoilt.mutation); }

class SpoiltRuntimes : public testing::TestWithParam<Spoilt> {};

bool In(const std::vector<std::pair<std::string, std::string>>& places, const Row& row) {
  return std::any_of(places.begin(), places.end(), [&](const auto& place) {
    return place.first == row.group && (place.second.empty() || place.second == row.tier);
  });
}

TEST_P(SpoiltRuntimes, TurnTheRightRowsRed) {
  FakeOptions options;
  options.shape = GetParam().shape;
  FakeSubject subject(options, GetParam().mutation);
  Settings settings = SmallSettings();
  settings.variations = false;
  settings.economics = false;
  const Certificate certificate = Tried(subject, settings);
  std::size_t reds = 0;
  for (const Row& row : certificate.rows) {
    if (row.verdict == Verdict::kNotApplicable) continue;
    if (In(GetParam().red, row)) {
      ++reds;
      EXPECT_EQ(row.verdict, Verdict::kFail) << RowName(row) << " [" << row.cached_tokens << "]";
      EXPECT_THAT(row.reason, testing::Not(HasSubstr("not exercised"))) << RowName(row);
    }
    if (In(GetParam().green, row)) {
      EXPECT_EQ(row.verdict, Verdict::kBit) << RowName(row) << ": " << row.reason;
    }
  }
  EXPECT_GE(reds, GetParam().red.size());
  EXPECT_EQ(certificate.bit, Verdict::kFail);
  EXPECT_EQ(certificate.token, Verdict::kFail);
  EXPECT_FALSE(certificate.FirstFailure(Exactness::kToken).empty());
}

TEST_P(SpoiltRuntimes, FailTheSelfTest) {
  FakeOptions options;
  options.shape = GetParam().shape;
  FakeSubject subject(options, GetParam().mutation);
  const auto runtime = subject.NewRuntime({.context = 0, .lanes = 2, .chunk = 0});
  ASSERT_TRUE(runtime);
  certify::QuickSettings settings;
  settings.page_tokens = 8;
  const auto text = [&](std::size_t count, std::uint64_t seed) {
    return subject.Text(count, seed);
  };
  const Result<Certificate> certificate = certify::QuickSelfTest(**runtime, text, settings);
  ASSERT_TRUE(certificate) << certificate.error().message;
  EXPECT_FALSE(certificate->Certifies(Exactness::kToken))
      << certify::TextReport(*certificate, true);
}

const std::pair<std::string, std::string> kHost{"tier matrix", "host pages"};
const std::pair<std::string, std::string> kHot{"tier matrix", "hot"};
const std::pair<std::string, std::string> kCopy{"tier matrix", "sequence copy"};
const std::pair<std::string, std::string> kDecoded{"tier matrix", "decoded result"};
const std::pair<std::string, std::string> kKvTrip{"state round trip", "KV rows"};
const std::pair<std::string, std::string> kWindowTrip{"state round trip", "window rows"};
const std::pair<std::string, std::string> kLong{"continuation", "host pages"};

INSTANTIATE_TEST_SUITE_P(
    Mutations, SpoiltRuntimes,
    testing::Values(
        Spoilt{Mutation::kForgottenWindowRow,
               ShapeKind::kWindow,
               {kHost, kDecoded, kWindowTrip, kLong},
               {kHot, kCopy, kKvTrip}},
        Spoilt{Mutation::kForgottenWindowRow,
               ShapeKind::kWindowOnly,
               {kHost, kDecoded, kWindowTrip},
               {kHot, kCopy}},
        Spoilt{Mutation::kForgottenWindowRow,
               ShapeKind::kHybridWindow,
               {kHost, kDecoded, kWindowTrip},
               {kHot, kCopy, kKvTrip}},
        Spoilt{Mutation::kStaleSnapshot,
               ShapeKind::kRecurrent,
               {kHost, kDecoded, kLong},
               {kHot, kCopy}},
        Spoilt{Mutation::kStaleSnapshot,
               ShapeKind::kHybrid,
               {kHost, kDecoded, kLong},
               {kHot, kCopy, kKvTrip}},
        Spoilt{Mutation::kOffByOnePosition,
               ShapeKind::kAttention,
               {kHost, kDecoded, kKvTrip},
               {kHot, kCopy}},
        Spoilt{
            Mutation::kOffByOnePosition, ShapeKind::kWindowOnly, {kHost, kDecoded}, {kHot, kCopy}},
        Spoilt{Mutation::kSwappedLayers,
               ShapeKind::kAttention,
               {kHost, kDecoded, kKvTrip},
               {kHot, kCopy}},
        Spoilt{Mutation::kKAndVExchanged,
               ShapeKind::kAttention,
               {kHost, kDecoded, kKvTrip},
               {kHot, kCopy}},
        Spoilt{Mutation::kKAndVExchanged,
               ShapeKind::kHybrid,
               {kHost, kDecoded, kKvTrip},
               {kHot, kCopy}},
        Spoilt{Mutation::kWrongRope, ShapeKind::kAttention, {kHost, kDecoded}, {kHot, kCopy}},
        Spoilt{Mutation::kWrongRope, ShapeKind::kMla, {kHost, kDecoded}, {kHot, kCopy}},
        Spoilt{Mutation::kFlippedBit,
               ShapeKind::kAttention,
               {kHost, kDecoded, kKvTrip},
               {kHot, kCopy}},
        Spoilt{Mutation::kFlippedBit, ShapeKind::kMla, {kHost, kDecoded, kKvTrip}, {kHot, kCopy}},
        Spoilt{Mutation::kFlippedBit, ShapeKind::kRecurrent, {kHost, kDecoded}, {kHot, kCopy}},
        Spoilt{Mutation::kOtherModelsPage, ShapeKind::kAttention, {kHost, kDecoded}, {kHot, kCopy}},
        Spoilt{Mutation::kOtherModelsPage, ShapeKind::kMla, {kHost, kDecoded}, {kHot, kCopy}}),
    SpoiltName);

TEST(CertifyTest, AHotLaneThatIsCutWrongTurnsHotRowsRed) {
  FakeOptions options;
  FakeSubject subject(options, Mutation::kCutLeavesDamage);
  Settings settings = SmallSettings();
  settings.variations = false;
  settings.economics = false;
  const Certificate certificate = Tried(subject, settings);
  for (const Row& row : certificate.rows) {
    const bool cut =
        row.tier == "hot" && (row.scenario == "rewind 5" || row.scenario == "rewind to the middle");
    if (cut || row.tier == "host pages") {
      EXPECT_EQ(row.verdict, cut ? Verdict::kFail : Verdict::kBit) << RowName(row);
    }
  }
  EXPECT_FALSE(certificate.Certifies(Exactness::kToken));
}

TEST(CertifyTest, RightAnswersThatReuseNothingFailAsNotExercised) {
  FakeOptions options;
  FakeSubject subject(options, Mutation::kImportFails);
  Settings settings = SmallSettings();
  settings.variations = false;
  settings.economics = false;
  const Certificate certificate = Tried(subject, settings);
  std::size_t rows = 0;
  for (const Row& row : certificate.rows) {
    if (row.group != "tier matrix" || row.tier != "host pages") continue;
    ++rows;
    EXPECT_EQ(row.verdict, Verdict::kFail) << RowName(row);
    EXPECT_THAT(row.reason, HasSubstr("not exercised")) << RowName(row);
  }
  EXPECT_EQ(rows, 16U);
  EXPECT_FALSE(certificate.Certifies(Exactness::kToken));
}

TEST(CertifyTest, ASettingThatIsRefusedDoesNotApplyWithItsReason) {
  FakeOptions options;
  FakeSubject subject(options);
  const Certificate certificate = Tried(subject, SmallSettings());
  const auto row = std::find_if(certificate.rows.begin(), certificate.rows.end(),
                                [](const Row& one) { return one.variation == "KV q4_0"; });
  ASSERT_NE(row, certificate.rows.end());
  EXPECT_EQ(row->verdict, Verdict::kNotApplicable);
  EXPECT_THAT(row->reason, HasSubstr("other head sizes"));
  EXPECT_TRUE(certificate.Certifies(Exactness::kBit));
}

TEST(CertifyTest, AContextTooSmallSaysWhatIsNeeded) {
  FakeOptions options;
  options.context = 90;
  FakeSubject subject(options);
  const Result<Certificate> certificate = Certify(subject, SmallSettings());
  ASSERT_FALSE(certificate);
  EXPECT_EQ(certificate.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(certificate.error().message, HasSubstr("needs 93 positions"));
  EXPECT_THAT(certificate.error().message, HasSubstr("has 90"));
}

TEST(CertifyTest, AModelThatIsNotCachedIsNotCertified) {
  FakeOptions options;
  options.exact_exports = false;
  FakeSubject subject(options);
  const Certificate certificate = Tried(subject, SmallSettings());
  EXPECT_FALSE(certificate.Certifies(Exactness::kBit));
  EXPECT_FALSE(certificate.Certifies(Exactness::kToken));
  EXPECT_THAT(certificate.FirstFailure(Exactness::kBit), HasSubstr("not exact"));
}

TEST(CertifyTest, OnlyWhatWasAskedForIsTried) {
  FakeOptions options;
  FakeSubject subject(options);
  Settings settings = SmallSettings();
  settings.exactness = {Exactness::kBit};
  const Certificate certificate = Tried(subject, settings);
  EXPECT_FALSE(certificate.token.has_value());
  EXPECT_FALSE(certificate.Certifies(Exactness::kToken));
  for (const Row& row : certificate.rows) {
    if (row.reference) continue;
    EXPECT_NE(row.promise, Promise::kToken) << RowName(row);
  }
}

TEST(CertifyTest, ProgressCountsUpToTheTotal) {
  FakeOptions options;
  FakeSubject subject(options);
  Settings settings = SmallSettings();
  std::size_t last = 0;
  std::size_t total = 0;
  settings.progress = [&](std::size_t done, std::size_t of, std::string_view) {
    EXPECT_GE(done, last);
    last = done;
    total = of;
  };
  Tried(subject, settings);
  EXPECT_GT(total, 100U);
  EXPECT_EQ(last, total);
}

TEST(CertifyTest, EconomicsTellBytesAndDeriveWhatDoesNotFit) {
  FakeOptions options;
  options.shape = ShapeKind::kHybridWindow;
  FakeSubject subject(options);
  const Certificate certificate = Tried(subject, SmallSettings());
  ASSERT_TRUE(certificate.economics);
  const certify::Economics& costs = *certificate.economics;
  EXPECT_EQ(costs.kv_bytes_per_token, 8U);
  EXPECT_EQ(costs.window_bytes_per_token, 12U);
  EXPECT_EQ(costs.snapshot_bytes, 24U);
  EXPECT_EQ(costs.logits_bytes, 64U * 4);
  ASSERT_EQ(costs.points.size(), 3U);
  EXPECT_EQ(costs.points[1].bytes, 128U * 8 + 24 * 12 + 24);
  EXPECT_TRUE(costs.points[1].measured);
  EXPECT_FALSE(costs.points[2].measured);
  EXPECT_GT(costs.points[2].recompute_ms, costs.points[1].recompute_ms);
}

}  // namespace
}  // namespace skippy::certify_test
