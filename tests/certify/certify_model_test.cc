// Certification of real llama.cpp on tiny fixtures: sound ones pass the self-test, spoilt ones turn
// the right rows red.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <string>

#include "certify/certify.h"
#include "certify/mutations.h"
#include "certify/port_run.h"
#include "certify/report.h"
#include "cli/certify_subject.h"
#include "llama/model.h"
#include "runtime/full_state.h"
#include "runtime/saved_state.h"

namespace skippy::certify_test {
namespace {

using certify::Certificate;
using certify::Promise;
using certify::Row;
using certify::RowName;
using certify::Verdict;
using testing::HasSubstr;

const llama::Model* SharedModel(const std::string& family) {
  static std::map<std::string, std::unique_ptr<llama::Model>> models;
  auto& model = models[family];
  if (!model) {
    llama::ModelOptions options;
    options.path = std::string(SKIPPY_FIXTURE_DIR) + "/" + family + "-tiny.gguf";
    auto loaded = llama::Model::Load(options);
    EXPECT_TRUE(loaded) << (loaded ? "" : loaded.error().message);
    if (loaded) model = std::move(*loaded);
  }
  return model.get();
}

constexpr std::uint32_t kContext = 1024;
constexpr std::uint32_t kChunk = 64;

runtime::RuntimeOptions OneThread() {
  runtime::RuntimeOptions options;
  options.context = kContext;
  options.chunk = kChunk;
  options.lanes = 2;
  options.threads = options.threads_batch = 1;
  return options;
}

// Keys come first in a block, a tensor a layer, then values.
TensorLayout LayoutOf(const runtime::RuntimeInfo& info) {
  const MemoryShape& shape = info.shape;
  const std::uint32_t layers = info.identity.layer_end;
  TensorLayout layout;
  if (shape.HasWindow()) {
    const std::uint64_t a_layer = (shape.kv_row_bytes + shape.window_row_bytes) / layers;
    layout.window_first = static_cast<std::uint32_t>(a_layer / 2);
    return layout;
  }
  const bool keys_only = info.identity.architecture == "deepseek2";
  const std::uint32_t tensors = keys_only ? layers : 2 * layers;
  layout.row_bytes.assign(tensors, static_cast<std::uint32_t>(shape.kv_row_bytes / tensors));
  layout.value = layers;
  for (std::size_t i = 0; i < layers; ++i) layout.rotated.push_back(i);
  return layout;
}

class SpoiltSubject final : public certify::Subject {
 public:
  SpoiltSubject(const llama::Model& model, Mutation mutation)
      : sound_(model, ""), mutation_(mutation) {}
  Result<std::unique_ptr<runtime::Runtime>> NewRuntime(
      const runtime::RuntimeOptions& options) override {
    auto runtime = sound_.NewRuntime(options);
    if (!runtime) return runtime;
    const TensorLayout layout = LayoutOf((*runtime)->info());
    return Mutate(std::move(*runtime), mutation_, layout,
                  [&] { return std::move(*sound_.NewRuntime(options)); });
  }
  std::vector<Token> Text(std::size_t count, std::uint64_t seed) override {
    return sound_.Text(count, seed);
  }

 private:
  cli::LlamaSubject sound_;
  const Mutation mutation_;
};

Certificate SelfTest(const std::string& family, Mutation mutation) {
  const llama::Model* model = SharedModel(family);
  if (model == nullptr) return {};
  SpoiltSubject subject(*model, mutation);
  const auto runtime = subject.NewRuntime(OneThread());
  EXPECT_TRUE(runtime) << (runtime ? "" : runtime.error().message);
  certify::QuickSettings settings;
  settings.exactness = {Exactness::kBit, Exactness::kToken};
  settings.page_tokens = 16;
  const auto text = [&](std::size_t count, std::uint64_t seed) {
    return subject.Text(count, seed);
  };
  auto certificate = certify::QuickSelfTest(**runtime, text, settings);
  EXPECT_TRUE(certificate) << (certificate ? "" : certificate.error().message);
  return certificate ? std::move(*certificate) : Certificate{};
}

class SoundFamilies : public testing::TestWithParam<const char*> {};

TEST_P(SoundFamilies, PassTheSelfTestBitForBit) {
  const Certificate certificate = SelfTest(GetParam(), Mutation::kNone);
  EXPECT_EQ(certificate.bit, Verdict::kBit) << certify::TextReport(certificate, true);
  EXPECT_TRUE(certificate.Certifies(Exactness::kToken)) << certify::TextReport(certificate, true);
  EXPECT_GE(certificate.rows.size(), 6U);
}

INSTANTIATE_TEST_SUITE_P(Families, SoundFamilies,
                         testing::Values("llama", "gemma3", "qwen3next", "deepseek3"),
                         [](const testing::TestParamInfo<const char*>& family) {
                           return std::string(family.param);
                         });

TEST(FullCertificationTest, EveryLaneOfEvidenceHoldsForADenseModel) {
  const llama::Model* model = SharedModel("llama");
  ASSERT_NE(model, nullptr);
  cli::LlamaSubject subject(*model, "");
  certify::Settings settings;
  settings.runtime = OneThread();
  settings.continued = 16;
  settings.variations = false;
  settings.economics = false;
  const auto certificate = certify::Certify(subject, settings);
  ASSERT_TRUE(certificate) << certificate.error().message;
  EXPECT_EQ(certificate->bit, Verdict::kBit) << certify::TextReport(*certificate, true);
  EXPECT_TRUE(certificate->Certifies(Exactness::kToken)) << certify::TextReport(*certificate, true);
  // The library's own full state agrees with what the components restore.
  for (const Row& row : certificate->rows) {
    if (row.group != "full_state") continue;
    EXPECT_EQ(row.verdict, Verdict::kBit) << RowName(row) << ": " << row.reason;
  }
}

struct Spoilt {
  Mutation mutation;
  const char* family;
  std::vector<std::string> red;    // tiers that must fail
  std::vector<std::string> green;  // and that must not
};
void PrintTo(const Spoilt& spoilt, std::ostream* out) { *out << MutationName(spoilt.mutation); }

class SpoiltFamilies : public testing::TestWithParam<Spoilt> {};

TEST_P(SpoiltFamilies, TurnTheRightRowsRed) {
  const Certificate certificate = SelfTest(GetParam().family, GetParam().mutation);
  const auto has = [](const std::vector<std::string>& tiers, const Row& row) {
    return std::find(tiers.begin(), tiers.end(), row.tier) != tiers.end();
  };
  std::size_t reds = 0;
  for (const Row& row : certificate.rows) {
    if (row.promise == Promise::kToken || row.verdict == Verdict::kNotApplicable) continue;
    if (has(GetParam().red, row)) {
      ++reds;
      EXPECT_EQ(row.verdict, Verdict::kFail) << RowName(row);
      EXPECT_THAT(row.reason, testing::Not(HasSubstr("not exercised")));
    } else if (has(GetParam().green, row)) {
      EXPECT_EQ(row.verdict, Verdict::kBit) << RowName(row) << ": " << row.reason;
    }
  }
  EXPECT_EQ(reds, GetParam().red.size());
  EXPECT_EQ(certificate.bit, Verdict::kFail);
}

INSTANTIATE_TEST_SUITE_P(
    Mutations, SpoiltFamilies,
    testing::Values(
        Spoilt{Mutation::kForgottenWindowRow,
               "gemma3",
               {"host pages", "window rows"},
               {"KV rows", "hot"}},
        Spoilt{Mutation::kStaleSnapshot, "qwen3next", {"host pages", "snapshot"}, {"KV rows"}},
        Spoilt{Mutation::kOffByOnePosition, "llama", {"host pages", "KV rows"}, {"hot"}},
        Spoilt{Mutation::kSwappedLayers, "llama", {"host pages", "KV rows"}, {"hot"}},
        Spoilt{Mutation::kSwappedLayers, "deepseek3", {"host pages", "KV rows"}, {"hot"}},
        Spoilt{Mutation::kKAndVExchanged, "llama", {"host pages", "KV rows"}, {"hot"}},
        Spoilt{Mutation::kWrongRope, "llama", {"host pages", "KV rows"}, {"hot"}},
        Spoilt{Mutation::kFlippedBit, "llama", {"host pages", "KV rows"}, {"hot"}},
        Spoilt{Mutation::kFlippedBit, "deepseek3", {"host pages", "KV rows"}, {"hot"}},
        Spoilt{Mutation::kOtherModelsPage, "llama", {"host pages"}, {"hot"}}),
    [](const testing::TestParamInfo<Spoilt>& spoilt) {
      return std::string(MutationName(spoilt.param.mutation)) + "_" + spoilt.param.family;
    });

// llama.cpp puts an imported window on other cells than a cold run does: what reads or moves rows
// by their place must refuse such a lane, and Clear makes it whole.
TEST(FullStateTest, AWindowThatLiesElsewhereIsNotReadAsIfItWereInPlace) {
  const llama::Model* model = SharedModel("gemma3");
  ASSERT_NE(model, nullptr);
  cli::LlamaSubject subject(*model, "");
  const auto made = subject.NewRuntime(OneThread());
  ASSERT_TRUE(made) << made.error().message;
  runtime::Runtime& port = **made;
  auto* access = dynamic_cast<runtime::FullStateAccess*>(&port);
  ASSERT_NE(access, nullptr);
  const SeqId from{0};
  const SeqId to{1};
  const std::vector<Token> text = subject.Text(450, 1);
  ASSERT_TRUE(certify::Prefill(port, from, text, 448));
  const auto state = access->ExportFullState(from);
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_FALSE(access->ImportFullState(from, *state)) << "into a lane that is not empty";
  ASSERT_TRUE(access->ImportFullState(to, *state));
  EXPECT_EQ(port.End(to), 448U);
  EXPECT_TRUE(certify::DecodeOne(port, to, text[448]));
  EXPECT_FALSE(port.Truncate(to, 440));
  const auto saved = runtime::Save(port, to, 64);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, ErrorCode::kUnsupported);
  port.Clear(to);
  EXPECT_TRUE(certify::Prefill(port, to, text, 448));
  EXPECT_TRUE(runtime::Save(port, to, 64));
  port.Clear(to);
  EXPECT_FALSE(access->ImportFullState(to, ByteSpan(*state).first(100)));
  EXPECT_EQ(port.End(to), 0U);
}

}  // namespace
}  // namespace skippy::certify_test
