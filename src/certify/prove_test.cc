// What serve asks before it caches: a certificate's word, or a test of its own.
#include "certify/prove.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "certify/certificate_store.h"
#include "certify/certify.h"
#include "runtime/fake/fake_runtime.h"
#include "skippy/random.h"

namespace skippy::certify {
namespace {

using runtime::fake::FakeOptions;
using runtime::fake::FakeRuntime;
using runtime::fake::FaultPlan;
using runtime::fake::ShapeKind;

class ProveTest : public ::testing::Test {
 protected:
  ProveTest() {
    folder_ = testing::TempDir() + "/prove-" + std::to_string(RandomBits());
    options_.folder = folder_;
    options_.say = [this](const std::string& line) { said_ += line + "\n"; };
  }
  ~ProveTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  bool Said(const std::string& words) const { return said_.find(words) != std::string::npos; }
  std::string PathOf(const runtime::Runtime& runtime) const {
    return CertificateStore(folder_).PathOf(runtime.info().identity);
  }

  std::string folder_;
  ProveOptions options_;
  std::string said_;
};

TEST_F(ProveTest, TheFirstStartTestsAndTheSecondBelieves) {
  for (const Exactness exactness : {Exactness::kToken, Exactness::kBit}) {
    FakeOptions fake;
    fake.shape = ShapeKind::kHybridWindow;
    fake.weights_seed = exactness == Exactness::kBit ? 2 : 3;
    FakeRuntime runtime(fake);
    options_.exactness = exactness;
    said_.clear();
    const auto first = ProveExact(runtime, options_);
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_TRUE(first->exact) << first->words;
    EXPECT_TRUE(Said("testing")) << said_;
    EXPECT_NE(first->words.find("bit-exact by the self-test of 2"), std::string::npos)
        << first->words;
    for (std::uint32_t lane = 0; lane < fake.lanes; ++lane) EXPECT_EQ(runtime.End(SeqId{lane}), 0U);

    said_.clear();
    const auto evaluated = runtime.counters().tokens_evaluated;
    const auto second = ProveExact(runtime, options_);
    ASSERT_TRUE(second);
    EXPECT_EQ(second->words, first->words);
    EXPECT_EQ(said_, "");
    EXPECT_EQ(runtime.counters().tokens_evaluated, evaluated);
  }
}

TEST_F(ProveTest, ARuntimeWhoseRestoresLieIsFoundAndRemembered) {
  FaultPlan faults;
  faults.lie_import.permille = 1000;
  FakeRuntime runtime(FakeOptions{}, faults);
  const auto proof = ProveExact(runtime, options_);
  ASSERT_TRUE(proof) << proof.error().message;
  EXPECT_FALSE(proof->exact);
  EXPECT_NE(proof->words.find("not token-exact by the self-test"), std::string::npos)
      << proof->words;
  said_.clear();
  const auto again = ProveExact(runtime, options_);
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->exact);
  EXPECT_EQ(again->words, proof->words);
  EXPECT_EQ(said_, "");
}

TEST_F(ProveTest, AChunkAsLargeAsTheContextIsNoReasonToServeWithoutCache) {
  for (int shape = 0; shape < runtime::fake::kShapeKindCount; ++shape) {
    FakeOptions fake;
    fake.shape = static_cast<ShapeKind>(shape);
    fake.context = fake.chunk = 128;
    FakeRuntime runtime(fake);
    const auto proof = ProveExact(runtime, options_);
    ASSERT_TRUE(proof) << proof.error().message;
    EXPECT_TRUE(proof->exact) << shape << ": " << proof->words;
  }
}

TEST_F(ProveTest, WithoutATestOnlyACertificateSpeaks) {
  FakeRuntime runtime(FakeOptions{});
  options_.run = false;
  const auto untested = ProveExact(runtime, options_);
  ASSERT_TRUE(untested);
  EXPECT_TRUE(untested->exact);
  EXPECT_NE(untested->words.find("untested"), std::string::npos);
  EXPECT_EQ(runtime.counters().tokens_evaluated, 0U);
  options_.run = true;
  ASSERT_TRUE(ProveExact(runtime, options_));
  options_.run = false;
  EXPECT_NE(ProveExact(runtime, options_)->words.find("by the self-test"), std::string::npos);
}

TEST_F(ProveTest, ADamagedResultIsToldAndTestedAnew) {
  FakeRuntime runtime(FakeOptions{});
  ASSERT_TRUE(ProveExact(runtime, options_));
  std::ofstream(PathOf(runtime), std::ios::app) << "x";
  said_.clear();
  const auto proof = ProveExact(runtime, options_);
  ASSERT_TRUE(proof);
  EXPECT_TRUE(proof->exact);
  EXPECT_TRUE(Said(PathOf(runtime))) << said_;
  EXPECT_TRUE(Said("testing")) << said_;
  said_.clear();
  ASSERT_TRUE(ProveExact(runtime, options_));
  EXPECT_EQ(said_, "") << "the new result replaced the damaged one";
}

TEST_F(ProveTest, ANamedCertificateMustBeWholeOursAndAboutTheSetting) {
  FakeRuntime runtime(FakeOptions{});
  ASSERT_TRUE(ProveExact(runtime, options_));
  ProveOptions named = options_;
  named.folder = folder_ + "/elsewhere";
  named.certificate_file = PathOf(runtime);
  const auto believed = ProveExact(runtime, named);
  ASSERT_TRUE(believed) << believed.error().message;
  EXPECT_TRUE(believed->exact);

  named.exactness = Exactness::kBit;  // the test above was about the token setting
  ASSERT_FALSE(ProveExact(runtime, named));
  EXPECT_NE(ProveExact(runtime, named).error().message.find("says nothing about --exactness bit"),
            std::string::npos);

  FakeOptions other;
  other.weights_seed = 99;
  FakeRuntime foreign(other);
  named.exactness = Exactness::kToken;
  ASSERT_FALSE(ProveExact(foreign, named));
  EXPECT_EQ(ProveExact(foreign, named).error().code, ErrorCode::kInvalidArgument);

  std::ofstream(PathOf(runtime), std::ios::app) << "x";
  EXPECT_FALSE(ProveExact(runtime, named));
  named.certificate_file = folder_ + "/absent.json";
  EXPECT_FALSE(ProveExact(runtime, named));
}

}  // namespace
}  // namespace skippy::certify
