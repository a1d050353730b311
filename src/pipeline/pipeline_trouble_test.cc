// What a pipeline promises where one of its stages is in trouble, one promise after the other.
#include <gtest/gtest.h>

#include "pipeline/pipeline_testing.h"

namespace skippy::pipeline {
namespace {

using enum runtime::fake::ShapeKind;
using runtime::DecodeItem;
using runtime::fake::SavedBoundary;

constexpr Pos kPage = 8;

// A link to a host of this process, which another one may take the place of.
class Forwarding : public StageLink {
 public:
  explicit Forwarding(StageHost& host) { GoTo(host); }
  void GoTo(StageHost& host) { link_ = std::make_unique<LocalLink>(host); }
  const std::string& address() const override { return address_; }
  Result<StageDescription> Attach() override { return link_->Attach(); }
  Result<StageOutput> Decode(std::span<const runtime::RowsItem> items) override {
    return link_->Decode(items);
  }
  Status Clear(SeqId lane) override { return link_->Clear(lane); }
  Result<LanePlace> Truncate(SeqId lane, Pos end) override { return link_->Truncate(lane, end); }
  Result<LanePlace> Copy(SeqId from, SeqId to) override { return link_->Copy(from, to); }
  Status Keep(SeqId lane, const PieceKey& piece) override { return link_->Keep(lane, piece); }
  Result<std::vector<bool>> Held(std::span<const PieceKey> pieces) override {
    return link_->Held(pieces);
  }
  Result<std::vector<PieceKey>> Find(std::span<const Digest> names) override {
    return link_->Find(names);
  }
  Status Forget() override { return link_->Forget(); }
  Result<LanePlace> Restore(const StageRestore& restore) override {
    return link_->Restore(restore);
  }

 private:
  const std::string address_ = "here";
  std::unique_ptr<LocalLink> link_;
};

class PipelineTrouble : public testing::Test {
 protected:
  static Pipeline::Setup Stages() {
    return ThreeStages({kAttention, kWindow, kMla, kAttention}, 0);
  }
  const std::vector<Token> tokens_ = SomeTokens(40);
};

TEST_F(PipelineTrouble, ARestartedStageEmptiesAllLanesAndIsAttachedToByTheNextCall) {
  Pipeline pipeline(Stages());
  PipelineRuntime& runtime = *pipeline.runtime;
  WholeModel whole(pipeline.options);
  runtime::fake::Evaluate(runtime, kLaneA, tokens_);
  runtime::fake::Evaluate(runtime, kLaneB, TokenSpan(tokens_).first(20));
  pipeline.processes[1]->Restart();
  // Nobody knows yet.
  EXPECT_EQ(runtime.End(kLaneA), 40U);
  const std::vector<Token> next = {1};
  const DecodeItem item{kLaneA, 40, next, true};
  const Status failed = runtime.Decode({&item, 1});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(failed.error().message.find("1..3"), std::string::npos) << failed.error().message;
  EXPECT_NE(failed.error().message.find(pipeline.links[1]->address()), std::string::npos);
  for (const SeqId lane : {kLaneA, kLaneB}) EXPECT_EQ(runtime.End(lane), 0U);
  for (const SeqId lane : {kLaneA, kLaneB}) {
    runtime.Clear(lane);
    EXPECT_EQ(runtime::fake::Evaluate(runtime, lane, tokens_), whole.Logits(tokens_));
  }
}

TEST_F(PipelineTrouble, AStageThatStaysAwayFailsEachCallAndHangsNone) {
  Pipeline::Setup setup = Stages();
  setup.faults.resize(3);
  for (std::uint64_t call = 2; call < 40; ++call)
    setup.faults[2].calls[call] = LinkFault::kLostCall;
  Pipeline pipeline(setup);
  PipelineRuntime& runtime = *pipeline.runtime;
  WholeModel whole(pipeline.options);
  const DecodeItem item{kLaneA, 0, TokenSpan(tokens_).first(16), true};
  int failures = 0;
  while (!runtime.Decode({&item, 1}) && failures < 100) {
    ++failures;
    EXPECT_EQ(runtime.End(kLaneA), 0U);
    runtime.Clear(kLaneA);
    EXPECT_FALSE(runtime.Truncate(kLaneA, 3));
    std::vector<std::byte> out(8 * kKeyBytes);
    EXPECT_FALSE(runtime.ExportRows(kLaneA, Component::kKv, {0, 8}, out));
  }
  EXPECT_GT(failures, 5);
  EXPECT_LT(failures, 100);
  EXPECT_EQ(runtime::fake::Evaluate(runtime, kLaneA, tokens_), whole.Logits(tokens_));
}

TEST_F(PipelineTrouble, AStageThatCameBackAsAnotherOneIsNotUsed) {
  FakeStageOptions other_options = Stages().options;
  other_options.weights_seed = 2;
  other_options.begin = 1;
  other_options.end = 3;
  FakeStageOptions longer_context = Stages().options;
  longer_context.begin = 1;
  longer_context.end = 3;
  longer_context.context = 1024;
  for (const FakeStageOptions& options : {other_options, longer_context}) {
    StageProcess imposter(options, 1 << 20);
    StageProcess right(
        [&] {
          FakeStageOptions own = Stages().options;
          own.begin = 1;
          own.end = 3;
          return own;
        }(),
        1 << 20);
    Pipeline around(Stages());  // for its first and last stage
    std::vector<std::unique_ptr<StageLink>> links;
    links.push_back(std::make_unique<LocalLink>(around.processes[0]->host()));
    links.push_back(std::make_unique<LocalLink>(around.processes[2]->host()));
    auto redirected = std::make_unique<Forwarding>(right.host());
    Forwarding& link = *redirected;
    links.push_back(std::move(redirected));
    auto made = PipelineRuntime::Make(CoordinatorOf(around.options), std::move(links), around.rows);
    ASSERT_TRUE(made) << made.error().message;
    PipelineRuntime& runtime = **made;
    WholeModel whole(around.options);
    EXPECT_EQ(runtime::fake::Evaluate(runtime, kLaneA, tokens_), whole.Logits(tokens_));
    link.GoTo(imposter.host());
    const std::vector<Token> next = {1};
    DecodeItem item{kLaneA, 40, next, true};
    EXPECT_FALSE(runtime.Decode({&item, 1}));
    runtime.Clear(kLaneA);
    item.pos = 0;
    for (int i = 0; i < 3; ++i) {
      const Status refused = runtime.Decode({&item, 1});
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
      EXPECT_NE(refused.error().message.find("here"), std::string::npos) << refused.error().message;
    }
    link.GoTo(right.host());
    EXPECT_EQ(runtime::fake::Evaluate(runtime, kLaneA, tokens_), whole.Logits(tokens_));
  }
}

TEST_F(PipelineTrouble, ALaterStagesFailedRestoreFailsTheNextPassAndIsNotAskedForAgain) {
  FaultPlan faults;
  faults.fail_import.calls = {1};
  Pipeline::Setup setup = Stages();
  setup.runtimes = {{}, {}, faults};
  Pipeline pipeline(setup);
  PipelineRuntime& runtime = *pipeline.runtime;
  WholeModel whole(pipeline.options);
  const TokenSpan prefix = TokenSpan(tokens_).first(30);
  runtime::fake::Evaluate(runtime, kLaneA, prefix);
  const SavedBoundary saved = runtime::fake::Save(runtime, kLaneA, tokens_, kPage);
  ASSERT_TRUE(runtime::fake::Restore(runtime, kLaneB, saved));
  EXPECT_EQ(runtime.End(kLaneB), 30U);
  const DecodeItem item{kLaneB, 30, TokenSpan(tokens_).subspan(30, 2), true};
  EXPECT_FALSE(runtime.Decode({&item, 1}));
  EXPECT_EQ(runtime.End(kLaneB), 0U);
  runtime.Clear(kLaneB);
  const auto kv = runtime::fake::Slices(saved.kv);
  const auto window = runtime::fake::Slices(saved.window);
  const runtime::ImportRequest request{kLaneB, saved.end, saved.tokens, kv, window, {}};
  const auto missing = runtime.FindMissing(request);
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->kv.size(), kv.size());
  // Kept anew it counts again.
  runtime::fake::Save(runtime, kLaneA, tokens_, kPage);
  EXPECT_FALSE(runtime.FindMissing(request)->any());
  ASSERT_TRUE(runtime.Import(request));
  EXPECT_EQ(runtime::fake::Evaluate(runtime, kLaneB, tokens_), whole.Logits(tokens_));
}

TEST_F(PipelineTrouble, AStageThatHoldsLessOfTheWindowIsNotGoneOnWith) {
  // Says so itself: its memory is not what was kept.
  class Forgetful final : public Forwarding {
   public:
    using Forwarding::Forwarding;
    Result<LanePlace> Restore(const StageRestore& restore) override {
      Result<LanePlace> place = Forwarding::Restore(restore);
      if (place) place->window_from = place->end - 1;
      return place;
    }
  };
  Pipeline around(Stages());
  std::vector<std::unique_ptr<StageLink>> links;
  links.push_back(std::make_unique<LocalLink>(around.processes[0]->host()));
  links.push_back(std::make_unique<Forgetful>(around.processes[1]->host()));
  links.push_back(std::make_unique<LocalLink>(around.processes[2]->host()));
  auto made = PipelineRuntime::Make(CoordinatorOf(around.options), std::move(links), around.rows);
  ASSERT_TRUE(made) << made.error().message;
  PipelineRuntime& runtime = **made;
  runtime::fake::Evaluate(runtime, kLaneA, tokens_);
  ASSERT_TRUE(runtime::fake::Restore(runtime, kLaneB,
                                     runtime::fake::Save(runtime, kLaneA, tokens_, kPage)));
  const std::vector<Token> next = {1};
  const DecodeItem item{kLaneB, 40, next, true};
  EXPECT_FALSE(runtime.Decode({&item, 1}));
  EXPECT_EQ(runtime.End(kLaneB), 0U);
}

TEST_F(PipelineTrouble, AFirstStagesFailedRestoreIsSaidAtOnce) {
  FaultPlan faults;
  faults.fail_import.calls = {1};
  faults.lie_import.calls = {2};
  Pipeline::Setup setup = Stages();
  setup.runtimes = {faults};
  Pipeline pipeline(setup);
  PipelineRuntime& runtime = *pipeline.runtime;
  runtime::fake::Evaluate(runtime, kLaneA, tokens_);
  const SavedBoundary saved = runtime::fake::Save(runtime, kLaneA, tokens_, kPage);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(runtime::fake::Restore(runtime, kLaneB, saved));
    EXPECT_EQ(runtime.End(kLaneB), 0U);
  }
  EXPECT_TRUE(runtime::fake::Restore(runtime, kLaneB, saved));
  EXPECT_EQ(runtime.End(kLaneB), 40U);
}

TEST_F(PipelineTrouble, ARecordIsNotMadeUnlessEachStageKeptItsPart) {
  for (std::size_t stage = 0; stage < 3; ++stage) {
    FaultPlan faults;
    faults.fail_export.calls = {1};
    Pipeline::Setup setup = Stages();
    setup.runtimes.resize(3);
    setup.runtimes[stage] = faults;
    Pipeline pipeline(setup);
    PipelineRuntime& runtime = *pipeline.runtime;
    runtime::fake::Evaluate(runtime, kLaneA, tokens_);
    std::vector<std::byte> out(8 * kKeyBytes);
    const Status failed = runtime.ExportRows(kLaneA, Component::kKv, {0, 8}, out);
    ASSERT_FALSE(failed);
    EXPECT_NE(failed.error().message.find(pipeline.links[stage]->address()), std::string::npos)
        << failed.error().message;
    // The lane is none the worse.
    EXPECT_EQ(runtime.End(kLaneA), 40U);
    EXPECT_TRUE(runtime.ExportRows(kLaneA, Component::kKv, {0, 8}, out));
  }
}

TEST(PipelineActivations, AStageThatBringsBackTooLittleComputesItAgain) {
  FaultPlan faults;
  faults.lie_import.permille = 1000;
  for (const std::size_t liar : {0U, 1U, 2U}) {
    Pipeline::Setup setup = ThreeStages({kAttention, kWindow, kMla, kAttention}, kActivations);
    setup.runtimes.resize(3);
    setup.runtimes[liar] = faults;
    Pipeline pipeline(setup);
    PipelineRuntime& runtime = *pipeline.runtime;
    WholeModel whole(pipeline.options);
    const std::vector<Token> tokens = SomeTokens(70);
    runtime::fake::Evaluate(runtime, kLaneA, TokenSpan(tokens).first(61));
    ASSERT_TRUE(runtime::fake::Restore(runtime, kLaneB,
                                       runtime::fake::Save(runtime, kLaneA, tokens, kPage)));
    EXPECT_EQ(runtime::fake::Evaluate(runtime, kLaneB, tokens), whole.Logits(tokens));
  }
}

TEST(PipelineForget, NothingThatWasKeptIsBroughtBack) {
  for (const std::uint64_t activations : {std::uint64_t{0}, kActivations}) {
    Pipeline pipeline(ThreeStages({kAttention, kMla, kAttention, kAttention}, activations));
    PipelineRuntime& runtime = *pipeline.runtime;
    const std::vector<Token> text = SomeTokens(40);
    runtime::fake::Evaluate(runtime, kLaneA, text);
    const SavedBoundary saved = runtime::fake::Save(runtime, kLaneA, text, kPage);
    const runtime::RecallQuery query{{}, text, 40, kPage, {}};
    ASSERT_EQ(runtime.Recall(query)->boundary, 40U);
    EXPECT_TRUE(runtime.Forget());
    EXPECT_EQ(runtime.Recall(query)->boundary, 0U);
    for (const auto& process : pipeline.processes) EXPECT_EQ(process->store().bytes(), 0U);
    EXPECT_TRUE(activations > 0 || !runtime::fake::Restore(runtime, kLaneB, saved));
  }
}

// A text that branched off within a piece of another one is no reason to keep that piece anew.
TEST(PipelineActivations, WhatIsComputedAgainIsKeptUnderItsOwnNameOnly) {
  Pipeline pipeline(ThreeStages({kAttention, kMla, kAttention, kAttention}, kActivations));
  PipelineRuntime& runtime = *pipeline.runtime;
  WholeModel whole(pipeline.options);
  const std::vector<Token> text = SomeTokens(32);
  std::vector<Token> branch(text.begin(), text.begin() + 21);
  branch.push_back((text[21] + 1) % 64);
  for (const Token token : SomeTokens(10, 9)) branch.push_back(token);
  for (const std::vector<Token>& known : {text, branch}) {
    runtime::fake::Evaluate(runtime, kLaneA, known);
    runtime.Clear(kLaneA);
  }
  runtime::fake::Evaluate(runtime, kLaneA, text);
  const SavedBoundary saved = runtime::fake::Save(runtime, kLaneA, text, 16);
  runtime.Clear(kLaneA);
  runtime::fake::Evaluate(runtime, kLaneA, branch);
  const SavedBoundary rest = runtime::fake::Save(runtime, kLaneA, branch, 16);
  for (const std::size_t lost : {0U, 1U, 2U}) {
    // Rows [0, 21) of the text's pieces, then the branch's own.
    std::vector<RowSlice> kv = runtime::fake::Slices(saved.kv);
    kv[1].positions.end = 21;
    kv.push_back(runtime::fake::Slices(rest.kv)[1]);
    kv[2].positions.begin = 21;
    kv[2].first_row = 5;
    const auto key = *ReadKey(Component::kKv, kv[0].block.first(kKeyBytes));
    pipeline.processes[lost]->store().Drop(key);
    ASSERT_TRUE(runtime.Import({kLaneB, 32, branch, kv, {}, {}}));
    EXPECT_EQ(runtime::fake::Evaluate(runtime, kLaneB, Join(branch, text)),
              whole.Logits(Join(branch, text)));
    ASSERT_TRUE(runtime::fake::Restore(runtime, kLaneB, saved));
    EXPECT_EQ(runtime::fake::Evaluate(runtime, kLaneB, Join(text, text)),
              whole.Logits(Join(text, text)));
  }
}

// With activations: what one stage lost, it computes again alone.
TEST(PipelineActivations, AStageThatLostItsStateComputesItAgainAlone) {
  for (const std::size_t lost : {0U, 1U, 2U}) {
    Pipeline::Setup setup =
        ThreeStages({kAttention, kRecurrent, kWindow, kAttention}, kActivations);
    Pipeline pipeline(setup);
    PipelineRuntime& runtime = *pipeline.runtime;
    WholeModel whole(setup.options);
    const std::vector<Token> tokens = SomeTokens(70);
    const TokenSpan prefix = TokenSpan(tokens).first(61);
    runtime::fake::Evaluate(runtime, kLaneA, prefix);
    const SavedBoundary saved = runtime::fake::Save(runtime, kLaneA, tokens, kPage);
    for (const auto& page : saved.kv)
      pipeline.processes[lost]->store().Drop(
          *ReadKey(Component::kKv, ByteSpan(page.bytes).first(kKeyBytes)));
    for (const auto& page : saved.window)
      pipeline.processes[lost]->store().Drop(
          *ReadKey(Component::kWindow, ByteSpan(page.bytes).first(kKeyBytes)));
    pipeline.processes[lost]->store().Drop(*ReadKey(Component::kSnapshot, saved.snapshot));
    const auto kv = runtime::fake::Slices(saved.kv);
    const auto window = runtime::fake::Slices(saved.window);
    const runtime::ImportRequest request{kLaneB, saved.end, saved.tokens,
                                         kv,     window,    saved.snapshot};
    const auto missing = runtime.FindMissing(request);
    ASSERT_TRUE(missing);
    EXPECT_FALSE(missing->any()) << "stage " << lost;
    std::vector<std::uint64_t> before;
    for (const auto& process : pipeline.processes)
      before.push_back(process->runtime().counters().tokens_evaluated);
    const Status imported = runtime.Import(request);
    ASSERT_TRUE(imported) << imported.error().message;
    const DecodeItem item{kLaneB, 61, TokenSpan(tokens).subspan(61, 3), true};
    ASSERT_TRUE(runtime.Decode({&item, 1}));
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(pipeline.processes[i]->runtime().counters().tokens_evaluated - before[i],
                i == lost ? 64U : 3U);
    EXPECT_EQ(runtime::fake::Evaluate(runtime, kLaneB, tokens), whole.Logits(tokens));
  }
}

}  // namespace
}  // namespace skippy::pipeline
