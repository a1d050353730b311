// The runtime's contract where it says no, its options, identity and adapters.
#include <gtest/gtest.h>

#include <limits>

#include "model/gguf_builder.h"
#include "model/harness.h"

namespace skippy::model_test {
namespace {

std::string Fixture(const std::string& file) {
  return std::string(SKIPPY_FIXTURE_DIR) + "/" + file;
}
constexpr SeqId kLane{0};
constexpr SeqId kOther{1};

class RuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = LoadModel(Fixture("llama-tiny.gguf"));
    ASSERT_NE(model_, nullptr);
    runtime_ = NewRuntime(*model_, {.context = 512, .lanes = 2, .chunk = 64});
    ASSERT_NE(runtime_, nullptr);
    tokens_ = RandomPrompt(*runtime_, 200, 3);
  }
  ErrorCode Decode(std::vector<runtime::DecodeItem> items) {
    const auto status = runtime_->Decode(items);
    return status ? ErrorCode::kUnavailable
                  : status.error().code;  // kUnavailable: never used by Decode
  }
  runtime::DecodeItem Item(SeqId lane, Pos pos, Pos count) {
    return {lane, pos, TokenSpan(tokens_).subspan(pos, count), true};
  }
  Error MakeError(const runtime::RuntimeOptions& options) {
    auto runtime = llama::MakeRuntime(*model_, options);
    return runtime ? Error{ErrorCode::kUnavailable, "accepted"} : runtime.error();
  }

  std::unique_ptr<llama::Model> model_;
  std::unique_ptr<runtime::Runtime> runtime_;
  std::vector<Token> tokens_;
};

TEST_F(RuntimeTest, DecodeRefusesWhatItCannotDoAndChangesNothing) {
  ASSERT_TRUE(Prefill(*runtime_, kLane, tokens_, 64));
  EXPECT_EQ(Decode({}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Decode({Item(SeqId{2}, 0, 1)}), ErrorCode::kInvalidArgument) << "no such lane";
  EXPECT_EQ(Decode({Item(kLane, 63, 1)}), ErrorCode::kInvalidArgument)
      << "a position that is there already";
  EXPECT_EQ(Decode({Item(kLane, 65, 1)}), ErrorCode::kInvalidArgument) << "a gap";
  EXPECT_EQ(Decode({Item(kLane, 64, 65)}), ErrorCode::kInvalidArgument) << "more than a chunk";
  EXPECT_EQ(Decode({Item(kLane, 64, 0)}), ErrorCode::kInvalidArgument) << "no tokens";
  EXPECT_EQ(Decode({Item(kLane, 64, 1), Item(kLane, 64, 1)}), ErrorCode::kInvalidArgument)
      << "a lane twice";
  EXPECT_EQ(Decode({Item(kLane, 64, 2), Item(kOther, 0, 2)}), ErrorCode::kInvalidArgument)
      << "two prefills";
  for (const Token token :
       {-1, static_cast<Token>(runtime_->info().vocab), std::numeric_limits<Token>::max()}) {
    const runtime::DecodeItem item{kLane, 64, TokenSpan(&token, 1), true};
    const auto status = runtime_->Decode({&item, 1});
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(status.error().message.find(std::to_string(token)), std::string::npos);
  }
  EXPECT_EQ(runtime_->End(kLane), 64U);
  EXPECT_EQ(runtime_->End(kOther), 0U);
  const auto after = Prefill(*runtime_, kLane, tokens_, 100);
  const auto cold = Prefill(*runtime_, kOther, tokens_, 100);
  ASSERT_TRUE(after && cold);
  EXPECT_TRUE(SameBits(*after, *cold));
}

TEST_F(RuntimeTest, ALaneEndsAtItsContext) {
  const auto long_prompt = RandomPrompt(*runtime_, 513, 4);
  ASSERT_EQ(runtime_->info().context, 512U);
  ASSERT_TRUE(Prefill(*runtime_, kLane, long_prompt, 512));
  const auto past = Prefill(*runtime_, kLane, long_prompt, 513);
  ASSERT_FALSE(past);
  EXPECT_EQ(past.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(past.error().message.find("513"), std::string::npos) << past.error().message;
  EXPECT_NE(past.error().message.find("512"), std::string::npos) << past.error().message;
}

TEST_F(RuntimeTest, LogitsAreThoseOfTheItemsThatAskedForThem) {
  ASSERT_TRUE(Prefill(*runtime_, kLane, tokens_, 50));
  ASSERT_TRUE(Prefill(*runtime_, kOther, tokens_, 60));
  const runtime::DecodeItem items[] = {{kOther, 60, TokenSpan(tokens_).subspan(60, 1), true},
                                       {kLane, 50, TokenSpan(tokens_).subspan(50, 1), false}};
  ASSERT_TRUE(runtime_->Decode(items));
  EXPECT_EQ(runtime_->Logits(0).size(), runtime_->info().vocab);
  EXPECT_TRUE(runtime_->Logits(1).empty());
  EXPECT_TRUE(runtime_->Logits(2).empty());
}

TEST_F(RuntimeTest, ExportsOutsideTheLaneAreRefused) {
  ASSERT_TRUE(Prefill(*runtime_, kLane, tokens_, 64));
  std::vector<std::byte> out(runtime_->info().shape.kv_row_bytes * 10);
  EXPECT_TRUE(runtime_->ExportRows(kLane, Component::kKv, {54, 64}, out));
  EXPECT_FALSE(runtime_->ExportRows(kLane, Component::kKv, {55, 65}, out));
  EXPECT_FALSE(runtime_->ExportRows(kLane, Component::kKv, {10, 10}, {}));
  EXPECT_FALSE(runtime_->ExportRows(kLane, Component::kKv, {0, 11}, out));
  EXPECT_FALSE(runtime_->ExportRows(SeqId{9}, Component::kKv, {0, 10}, out));
  EXPECT_FALSE(runtime_->ExportRows(kLane, Component::kWindow, {0, 10}, out));
  EXPECT_FALSE(runtime_->ExportRows(kLane, Component::kLogits, {0, 10}, out));
  EXPECT_FALSE(runtime_->ExportSnapshot(kLane, out));
}

TEST_F(RuntimeTest, OptionsOutOfRangeAreNamed) {
  const auto expect = [&](const runtime::RuntimeOptions& options, ErrorCode code,
                          const char* part) {
    const Error error = MakeError(options);
    EXPECT_EQ(error.code, code) << error.message;
    EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
  };
  expect({.lanes = 0}, ErrorCode::kInvalidArgument, "lanes");
  expect({.lanes = 1000}, ErrorCode::kInvalidArgument, "lanes");
  expect({.threads = 100000}, ErrorCode::kInvalidArgument, "threads");
  expect({.context = 0xffffffffU, .lanes = 4}, ErrorCode::kInvalidArgument, "context");
  expect({.type_k = "int4"}, ErrorCode::kInvalidArgument, "int4");
  expect({.flash_attention = false, .type_v = "q8_0"}, ErrorCode::kInvalidArgument,
         "flash attention");
}

TEST_F(RuntimeTest, ZerosAreTheDefaults) {
  const auto made = llama::MakeRuntime(*model_, {});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ((*made)->info().chunk, 256U);
  EXPECT_EQ((*made)->info().lanes, 1U);
  EXPECT_GT((*made)->info().context, 0U);
  EXPECT_LE((*made)->info().context, 8192U);
}

TEST_F(RuntimeTest, AContextLargerThanMemoryIsRefusedWithBothNumbers) {
  const Error error =
      MakeError({.context = 1U << 24, .lanes = 64, .type_k = "f32", .type_v = "f32"});
  EXPECT_EQ(error.code, ErrorCode::kResourceExhausted) << error.message;
  EXPECT_NE(error.message.find("needs about"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("available"), std::string::npos) << error.message;
}

TEST_F(RuntimeTest, EveryOptionThatChangesStateBytesChangesTheIdentity) {
  const RunSetup base{.context = 512, .lanes = 2, .chunk = 64};
  const auto identity = [&](const RunSetup& setup) {
    return NewRuntime(*model_, setup)->info().identity;
  };
  std::vector<Identity> seen = {identity(base)};
  EXPECT_EQ(seen[0], identity(base)) << "the same options, another context";
  for (auto change : std::vector<void (*)(RunSetup&)>{
           [](RunSetup& s) { s.context = 1024; }, [](RunSetup& s) { s.lanes = 3; },
           [](RunSetup& s) { s.chunk = 128; }, [](RunSetup& s) { s.flash_attention = false; },
           [](RunSetup& s) { s.swa_full = true; }, [](RunSetup& s) { s.type_k = "bf16"; },
           [](RunSetup& s) { s.type_v = "bf16"; }}) {
    RunSetup setup = base;
    change(setup);
    const Identity changed = identity(setup);
    for (const Identity& other : seen) EXPECT_NE(changed, other);
    seen.push_back(changed);
  }
}

TEST(AdapterTest, AdaptersChangeLogitsAndRestoreLikeAnyState) {
  TempFolder folder;
  WriteLora(Fixture("llama-tiny.gguf"), folder.Path("one.gguf"), 1);
  WriteLora(Fixture("llama-tiny.gguf"), folder.Path("two.gguf"), 2);
  auto loaded = llama::Model::Load(
      {.path = Fixture("llama-tiny.gguf"),
       .gpu_layers = -1,
       .use_mmap = true,
       .adapters = {{folder.Path("one.gguf"), 1.0F}, {folder.Path("two.gguf"), 0.5F}}});
  ASSERT_TRUE(loaded) << loaded.error().message;
  const llama::Model& model = **loaded;
  ASSERT_EQ(model.adapters().size(), 2U);
  auto runtime = NewRuntime(model, {.context = 512, .lanes = 2, .chunk = 64});
  ASSERT_NE(runtime, nullptr);
  const auto tokens = RandomPrompt(*runtime, 150, 3);
  using Adapters = std::vector<std::pair<std::uint32_t, float>>;
  const auto run = [&](const Adapters& adapters) {
    EXPECT_TRUE(runtime->UseAdapters(adapters));
    runtime->Clear(kLane);
    return *Prefill(*runtime, kLane, tokens, 150);
  };
  const Logits none = run({});
  const Logits one = run({{0, 1.0F}});
  const Logits both = run({{0, 1.0F}, {1, 0.5F}});
  EXPECT_FALSE(SameBits(none, one));
  EXPECT_FALSE(SameBits(one, both));
  EXPECT_FALSE(SameBits(one, run({{0, 0.5F}}))) << "the scale";
  EXPECT_TRUE(SameBits(both, run({{1, 0.5F}, {0, 1.0F}}))) << "the order of naming";
  EXPECT_TRUE(SameBits(none, run({{0, 0.0F}}))) << "a scale of zero";

  // State made with adapters restores under the same adapters.
  ASSERT_TRUE(runtime->UseAdapters(Adapters{{0, 1.0F}}));
  runtime->Clear(kLane);
  ASSERT_TRUE(Prefill(*runtime, kLane, tokens, 128));
  const auto saved = Save(*runtime, kLane, 64);
  ASSERT_TRUE(saved);
  ASSERT_TRUE(RestoreInto(*runtime, kOther, *saved, tokens, 128));
  const auto restored = Prefill(*runtime, kOther, tokens, 150);
  ASSERT_TRUE(restored);
  EXPECT_TRUE(SameBits(*restored, one));

  const auto identities = runtime->ResolveAdapters(Adapters{{1, 0.25F}, {0, 0.0F}});
  ASSERT_TRUE(identities);
  ASSERT_EQ(identities->size(), 1U);
  EXPECT_EQ((*identities)[0], (AdapterIdentity{model.adapters()[1].content, 0.25F}));
  EXPECT_FALSE(runtime->ResolveAdapters(Adapters{{2, 1.0F}})) << "unknown index";
  EXPECT_FALSE(runtime->UseAdapters(Adapters{{7, 1.0F}})) << "unknown index";
  EXPECT_FALSE(runtime->ResolveAdapters(Adapters{{0, 1.0F}, {0, 1.0F}})) << "twice";
  EXPECT_FALSE(runtime->ResolveAdapters(Adapters{{0, std::numeric_limits<float>::quiet_NaN()}}));
}

// llama.cpp asserts on shares that do not come out even in this family, unless the batch is rounded
// up.
TEST(LanesTest, LanesNeedNotDivideTheChunk) {
  auto kimi = LoadModel(Fixture("kimi-linear-tiny.gguf"));
  ASSERT_NE(kimi, nullptr);
  for (const std::uint32_t lanes : {3U, 5U, 7U})
    EXPECT_NE(NewRuntime(*kimi, {.context = 256, .lanes = lanes, .chunk = 64}), nullptr);
}

}  // namespace
}  // namespace skippy::model_test
