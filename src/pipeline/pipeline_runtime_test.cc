// The runtime port's contract, through stages: the same answers as one stage of all layers gives,
// wherever the model is cut.
#include "pipeline/pipeline_runtime.h"

#include <gtest/gtest.h>

#include "pipeline/pipeline_testing.h"

namespace skippy::pipeline {
namespace {

using enum runtime::fake::ShapeKind;
using runtime::DecodeItem;
using runtime::fake::Evaluate;
using runtime::fake::Restore;
using runtime::fake::Save;
using runtime::fake::SavedBoundary;

constexpr Pos kPage = 8;
constexpr Pos kBoundary = 61;  // neither on a page nor on the grid
constexpr Pos kEnd = 75;

FakeStageOptions Options(std::vector<ShapeKind> model) {
  FakeStageOptions options;
  options.model = std::move(model);
  return options;
}

Pipeline::Setup SetupOf(std::vector<ShapeKind> model, Cut cut) {
  Pipeline::Setup setup;
  setup.options = Options(std::move(model));
  setup.cut = std::move(cut);
  return setup;
}

class PipelineModels : public testing::TestWithParam<NamedModel> {
 protected:
  std::uint32_t layers() const { return static_cast<std::uint32_t>(GetParam().layers.size()); }
  FakeStageOptions options() const { return Options(GetParam().layers); }
  Pipeline::Setup SetupAt(const Cut& cut) const { return SetupOf(GetParam().layers, cut); }
  // Some stages lack components that others have.
  Pipeline::Setup Setup() const { return SetupAt({{0, 1}, {1, 3}, {3, layers()}}); }
  const std::vector<Token> tokens_ = SomeTokens(kEnd);
};
INSTANTIATE_TEST_SUITE_P(Models, PipelineModels, testing::ValuesIn(runtime::fake::FakeModels()),
                         [](const auto& model) { return model.param.name; });

TEST_P(PipelineModels, GiveTheWholeModelsLogitsWhereverTheyAreCut) {
  WholeModel whole(options());
  for (const Cut& cut : runtime::fake::CutsOf(layers())) {
    Pipeline pipeline(SetupAt(cut));
    ASSERT_TRUE(pipeline.runtime) << pipeline.error->message;
    EXPECT_EQ(Evaluate(*pipeline.runtime, kLaneA, tokens_), whole.Logits(tokens_));
    const std::vector<Token> other = SomeTokens(20, 3);
    Evaluate(*pipeline.runtime, kLaneB, other);
    const std::vector<Token> next = {5, 6};
    const std::vector<DecodeItem> items = {{kLaneB, 20, TokenSpan(next).first(1), true},
                                           {kLaneA, kEnd, TokenSpan(next).last(1), true}};
    ASSERT_TRUE(pipeline.runtime->Decode(items));
    std::vector<Token> text = other;
    text.push_back(5);
    const auto logits = [&](std::size_t item) {
      const auto given = pipeline.runtime->Logits(item);
      return std::vector<float>(given.begin(), given.end());
    };
    EXPECT_EQ(logits(0), whole.Logits(text));
    text = tokens_;
    text.push_back(6);
    EXPECT_EQ(logits(1), whole.Logits(text));
    EXPECT_TRUE(pipeline.runtime->Logits(2).empty());
    EXPECT_EQ(pipeline.runtime->End(kLaneA), kEnd + 1);
    EXPECT_EQ(pipeline.runtime->End(kLaneB), 21U);
  }
}

TEST_P(PipelineModels, GiveTheSameBitsWhereKernelsRoundByTheBatch) {
  FakeStageOptions noisy = options();
  noisy.shape_noise = true;
  FakeChain chain(noisy, {{0, layers()}});
  const std::vector<float> expected = chain.Evaluate(kLaneA, tokens_);
  Pipeline::Setup setup = Setup();
  setup.options.shape_noise = true;
  Pipeline pipeline(setup);
  EXPECT_EQ(Evaluate(*pipeline.runtime, kLaneA, tokens_), expected);
}

TEST_P(PipelineModels, TakeLinksInAnyOrder) {
  WholeModel whole(options());
  Pipeline::Setup setup = Setup();
  setup.order = {2, 0, 1};
  Pipeline pipeline(setup);
  ASSERT_TRUE(pipeline.runtime) << pipeline.error->message;
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(pipeline.runtime->stages()[i].address, pipeline.links[i]->address());
  EXPECT_EQ(Evaluate(*pipeline.runtime, kLaneA, tokens_), whole.Logits(tokens_));
  const SavedBoundary saved = Save(*pipeline.runtime, kLaneA, tokens_, kPage);
  ASSERT_TRUE(Restore(*pipeline.runtime, kLaneB, saved));
  EXPECT_EQ(pipeline.runtime->End(kLaneB), kEnd);
}

TEST_P(PipelineModels, OneOtherTokenGivesOtherLogits) {
  Pipeline pipeline(Setup());
  std::vector<Token> other = tokens_;
  other[kEnd - 20] = (other[kEnd - 20] + 1) % 64;
  EXPECT_NE(Evaluate(*pipeline.runtime, kLaneA, tokens_),
            Evaluate(*pipeline.runtime, kLaneB, other));
}

TEST_P(PipelineModels, ARestoreIsTheColdRun) {
  WholeModel whole(options());
  for (const Cut& cut : runtime::fake::CutsOf(layers())) {
    for (const Pos boundary : {Pos{1}, Pos{16}, kBoundary}) {
      Pipeline pipeline(SetupAt(cut));
      Evaluate(*pipeline.runtime, kLaneA, TokenSpan(tokens_).first(boundary));
      const SavedBoundary saved = Save(*pipeline.runtime, kLaneA, tokens_, kPage);
      // Gone on with before and after: what was kept is of that moment.
      Evaluate(*pipeline.runtime, kLaneA, TokenSpan(tokens_).first(boundary + 3));
      ASSERT_TRUE(Restore(*pipeline.runtime, kLaneB, saved));
      EXPECT_EQ(pipeline.runtime->End(kLaneB), boundary);
      EXPECT_LE(pipeline.runtime->WindowHeldFrom(kLaneB),
                pipeline.runtime->info().shape.WindowBegin(boundary));
      EXPECT_EQ(Evaluate(*pipeline.runtime, kLaneB, tokens_), whole.Logits(tokens_));
      EXPECT_EQ(Evaluate(*pipeline.runtime, kLaneA, tokens_), whole.Logits(tokens_));
    }
  }
}

TEST_P(PipelineModels, ARestoreOverAnotherTextIsTheColdRun) {
  WholeModel whole(options());
  Pipeline pipeline(Setup());
  Evaluate(*pipeline.runtime, kLaneA, TokenSpan(tokens_).first(kBoundary));
  const SavedBoundary saved = Save(*pipeline.runtime, kLaneA, tokens_, kPage);
  for (const std::size_t length : {10U, 61U, 70U}) {
    Evaluate(*pipeline.runtime, kLaneB, SomeTokens(length, 5));
    ASSERT_TRUE(Restore(*pipeline.runtime, kLaneB, saved));
    EXPECT_EQ(Evaluate(*pipeline.runtime, kLaneB, tokens_), whole.Logits(tokens_));
    pipeline.runtime->Clear(kLaneB);
  }
}

TEST_P(PipelineModels, AFlippedByteOfAnyNameIsRefused) {
  Pipeline pipeline(Setup());
  Evaluate(*pipeline.runtime, kLaneA, TokenSpan(tokens_).first(kBoundary));
  const SavedBoundary saved = Save(*pipeline.runtime, kLaneA, tokens_, kPage);
  const auto refused = [&](const SavedBoundary& broken) {
    // In the order of an engine: what is missing is not asked for.
    const auto kv = runtime::fake::Slices(broken.kv);
    const auto window = runtime::fake::Slices(broken.window);
    const runtime::ImportRequest request{kLaneB, broken.end, broken.tokens,
                                         kv,     window,     broken.snapshot};
    const auto missing = pipeline.runtime->FindMissing(request);
    EXPECT_TRUE(!missing || missing->any());
    // And without asking: at the latest the first pass fails.
    const bool imported = pipeline.runtime->Import(request).has_value();
    if (!imported) return pipeline.runtime->End(kLaneB) == 0;
    const DecodeItem item{kLaneB, kBoundary, TokenSpan(tokens_).subspan(kBoundary, 3), true};
    const bool failed = !pipeline.runtime->Decode({&item, 1}).has_value();
    pipeline.runtime->Clear(kLaneB);
    return failed;
  };
  const auto flip_everywhere = [&](auto select) {
    for (std::size_t page = 0; page < select(saved).size(); page += 3)
      for (std::size_t i = 0; i < select(saved)[page].bytes.size(); i += 5) {
        SavedBoundary broken = saved;
        select(broken)[page].bytes[i] ^= std::byte{0x10};
        EXPECT_TRUE(refused(broken)) << "page " << page << " byte " << i;
      }
  };
  flip_everywhere([](auto& boundary) -> auto& { return boundary.kv; });
  flip_everywhere([](auto& boundary) -> auto& { return boundary.window; });
  for (std::size_t i = 0; i < saved.snapshot.size(); ++i) {
    SavedBoundary broken = saved;
    broken.snapshot[i] ^= std::byte{0x01};
    EXPECT_TRUE(refused(broken)) << "snapshot byte " << i;
  }
}

TEST_P(PipelineModels, MissingSwappedAndStalePartsAreRefused) {
  Pipeline pipeline(Setup());
  Evaluate(*pipeline.runtime, kLaneA, TokenSpan(tokens_).first(kBoundary - 1));
  const SavedBoundary stale = Save(*pipeline.runtime, kLaneA, tokens_, kPage);
  Evaluate(*pipeline.runtime, kLaneA, TokenSpan(tokens_).first(kBoundary));
  const SavedBoundary saved = Save(*pipeline.runtime, kLaneA, tokens_, kPage);
  const auto refused = [&](const auto& change) {
    SavedBoundary broken = saved;
    change(broken);
    const bool imported = Restore(*pipeline.runtime, kLaneB, broken).has_value();
    if (!imported) return pipeline.runtime->End(kLaneB) == 0;
    const DecodeItem item{kLaneB, pipeline.runtime->End(kLaneB), TokenSpan(tokens_).last(1), true};
    const bool failed = !pipeline.runtime->Decode({&item, 1}).has_value();
    pipeline.runtime->Clear(kLaneB);
    return failed;
  };
  using B = SavedBoundary;
  EXPECT_FALSE(refused([](B&) {}));
  if (!saved.kv.empty()) {
    EXPECT_TRUE(refused([](B& b) { b.kv.erase(b.kv.begin() + 2); }));
    EXPECT_TRUE(refused([](B& b) { b.kv.pop_back(); }));
    EXPECT_TRUE(refused([](B& b) { b.kv.clear(); }));
    EXPECT_TRUE(refused([](B& b) { std::swap(b.kv[1].bytes, b.kv[2].bytes); }));
    EXPECT_TRUE(refused([](B& b) { b.kv[1].bytes.pop_back(); }));
    EXPECT_TRUE(refused([](B& b) { std::swap(b.kv[1], b.kv[2]); }));
  }
  if (!saved.window.empty()) {
    EXPECT_TRUE(refused([](B& b) { b.window.erase(b.window.begin()); }));
    EXPECT_TRUE(refused([](B& b) { b.window.clear(); }));
    EXPECT_TRUE(refused([](B& b) { std::swap(b.window[1].bytes, b.window[2].bytes); }));
  }
  if (!saved.snapshot.empty()) {
    EXPECT_TRUE(refused([&](B& b) { b.snapshot = stale.snapshot; }));
    EXPECT_TRUE(refused([](B& b) { b.snapshot.pop_back(); }));
    EXPECT_TRUE(refused([](B& b) { b.snapshot.clear(); }));
  }
  EXPECT_TRUE(refused([](B& b) { b.tokens.pop_back(); }));
  EXPECT_TRUE(refused([](B& b) { b.end = kBoundary - 1; }));
  EXPECT_TRUE(refused([](B& b) { b.end = 5000; }));
}

TEST_P(PipelineModels, FindMissingNamesWhatAStageLost) {
  Pipeline::Setup setup = Setup();
  Pipeline pipeline(setup);
  Evaluate(*pipeline.runtime, kLaneA, TokenSpan(tokens_).first(kBoundary));
  const SavedBoundary saved = Save(*pipeline.runtime, kLaneA, tokens_, kPage);
  const auto kv = runtime::fake::Slices(saved.kv);
  const auto window = runtime::fake::Slices(saved.window);
  const runtime::ImportRequest request{kLaneB, saved.end, saved.tokens, kv, window, saved.snapshot};
  const auto find = [&] {
    const auto missing = pipeline.runtime->FindMissing(request);
    EXPECT_TRUE(missing) << (missing ? "" : missing.error().message);
    return missing ? *missing : runtime::MissingParts{};
  };
  EXPECT_FALSE(find().any());
  // One piece after the other, each lost by one of the stages that have it.
  runtime::MissingParts expected;
  const auto lose = [&](const PieceKey& key, std::size_t nth) {
    std::vector<StageProcess*> holders;
    for (const auto& process : pipeline.processes)
      for (const PieceKey& there : process->store().KeysOf(key.name))
        if (there == key) holders.push_back(process.get());
    ASSERT_FALSE(holders.empty());
    holders[nth % holders.size()]->store().Drop(key);
  };
  const auto check = [&] {
    const runtime::MissingParts missing = find();
    EXPECT_EQ(missing.kv, expected.kv);
    EXPECT_EQ(missing.window, expected.window);
    EXPECT_EQ(missing.snapshot, expected.snapshot);
  };
  for (std::size_t i = 0; i < kv.size(); i += 2) {
    lose(*ReadKey(Component::kKv, kv[i].block.first(kKeyBytes)), i);
    expected.kv.push_back(i);
    check();
  }
  for (std::size_t i = 0; i < window.size(); ++i) {
    lose(*ReadKey(Component::kWindow, window[i].block.first(kKeyBytes)), i + 1);
    expected.window.push_back(i);
    check();
  }
  if (!saved.snapshot.empty()) {
    lose(*ReadKey(Component::kSnapshot, saved.snapshot), 1);
    expected.snapshot = true;
    check();
  }
  // Kept again, all is there.
  Save(*pipeline.runtime, kLaneA, tokens_, kPage);
  EXPECT_FALSE(find().any());
  ASSERT_TRUE(pipeline.runtime->Import(request));
  WholeModel whole(options());
  EXPECT_EQ(Evaluate(*pipeline.runtime, kLaneB, tokens_), whole.Logits(tokens_));
}

TEST_P(PipelineModels, AnotherCoordinatorRecallsWhatWasKept) {
  // The first coordinator is gone; another one knows nothing but the text.
  WholeModel whole(options());
  for (const Pos boundary : {Pos{16}, kBoundary}) {
    Pipeline pipeline(Setup());
    const Namespace ns{DigestOf("tenant")};
    pipeline.runtime->Bind(kLaneA, ns);
    Evaluate(*pipeline.runtime, kLaneA, TokenSpan(tokens_).first(boundary));
    Save(*pipeline.runtime, kLaneA, tokens_, kPage);
    Pipeline::Setup setup = Setup();
    std::vector<std::unique_ptr<StageLink>> links;
    for (const auto& process : pipeline.processes)
      links.push_back(std::make_unique<FaultyLink>(*process, LinkFaults{}));
    auto made =
        PipelineRuntime::Make(CoordinatorOf(setup.options), std::move(links), pipeline.rows);
    ASSERT_TRUE(made);
    PipelineRuntime& other = **made;
    const std::vector<Pos> places = {boundary};
    const auto recall = [&](const Namespace& of, TokenSpan tokens, Pos max_boundary) {
      const auto recalled = other.Recall({of, tokens, max_boundary, kPage, places});
      EXPECT_TRUE(recalled) << (recalled ? "" : recalled.error().message);
      return recalled ? *recalled : runtime::Recalled{};
    };
    const runtime::Recalled recalled = recall(ns, tokens_, kEnd - 1);
    ASSERT_EQ(recalled.boundary, boundary);
    SavedBoundary saved;
    saved.end = boundary;
    saved.tokens.assign(tokens_.begin(), tokens_.begin() + boundary);
    for (const runtime::Recalled::Rows& rows : recalled.rows) {
      SavedBoundary::Page page{rows.positions, {}};
      for (Pos p = 0; p < rows.positions.size(); ++p)
        page.bytes.insert(page.bytes.end(), rows.row.begin(), rows.row.end());
      (rows.component == Component::kKv ? saved.kv : saved.window).push_back(std::move(page));
    }
    saved.snapshot = recalled.snapshot;
    const Status restored = Restore(other, kLaneB, saved);
    ASSERT_TRUE(restored) << restored.error().message;
    EXPECT_EQ(Evaluate(other, kLaneB, tokens_), whole.Logits(tokens_));
    // Nothing for others, for another text, or beyond what is asked for.
    EXPECT_EQ(recall(Namespace{DigestOf("other")}, tokens_, kEnd - 1).boundary, 0U);
    EXPECT_EQ(recall(ns, SomeTokens(kEnd, 99), kEnd - 1).boundary, 0U);
    EXPECT_LE(recall(ns, tokens_, boundary - 1).boundary, boundary - 1);
  }
}

TEST_P(PipelineModels, ATextInAnotherNamespaceHasOtherNames) {
  Pipeline pipeline(Setup());
  pipeline.runtime->Bind(kLaneA, Namespace{DigestOf("one")});
  pipeline.runtime->Bind(kLaneB, Namespace{DigestOf("two")});
  Evaluate(*pipeline.runtime, kLaneA, tokens_);
  Evaluate(*pipeline.runtime, kLaneB, tokens_);
  const SavedBoundary one = Save(*pipeline.runtime, kLaneA, tokens_, kPage);
  const SavedBoundary two = Save(*pipeline.runtime, kLaneB, tokens_, kPage);
  for (std::size_t i = 0; i < one.kv.size(); ++i) EXPECT_NE(one.kv[i].bytes, two.kv[i].bytes);
  for (std::size_t i = 0; i < one.window.size(); ++i)
    EXPECT_NE(one.window[i].bytes, two.window[i].bytes);
  EXPECT_TRUE(one.snapshot.empty() || one.snapshot != two.snapshot);
  // And the same one in the same namespace, from whichever lane.
  pipeline.runtime->Clear(kLaneB);
  pipeline.runtime->Bind(kLaneB, Namespace{DigestOf("one")});
  Evaluate(*pipeline.runtime, kLaneB, tokens_);
  const SavedBoundary again = Save(*pipeline.runtime, kLaneB, tokens_, kPage);
  for (std::size_t i = 0; i < one.kv.size(); ++i) EXPECT_EQ(one.kv[i].bytes, again.kv[i].bytes);
  EXPECT_EQ(one.snapshot, again.snapshot);
}

TEST_P(PipelineModels, ACopyIsTheSameSequence) {
  WholeModel whole(options());
  Pipeline pipeline(Setup());
  PipelineRuntime& runtime = *pipeline.runtime;
  Evaluate(runtime, kLaneA, TokenSpan(tokens_).first(20));
  ASSERT_TRUE(runtime.Copy(kLaneA, kLaneB));
  EXPECT_EQ(runtime.End(kLaneB), 20U);
  EXPECT_EQ(Evaluate(runtime, kLaneB, tokens_), whole.Logits(tokens_));
  EXPECT_EQ(Evaluate(runtime, kLaneA, tokens_), whole.Logits(tokens_));
  EXPECT_FALSE(runtime.Copy(kLaneA, kLaneB));
  EXPECT_EQ(runtime.End(kLaneB), kEnd);
  EXPECT_FALSE(runtime.Copy(kLaneA, kLaneA));
  // A copy has names of its own text.
  const SavedBoundary saved = Save(runtime, kLaneB, tokens_, kPage);
  ASSERT_TRUE(Restore(runtime, kLaneA, saved));
  EXPECT_EQ(runtime.End(kLaneA), kEnd);
}

TEST_P(PipelineModels, AreCutBackAsTheWholeModelIs) {
  WholeModel whole(options());
  for (const Pos end : {Pos{80}, Pos{79}, Pos{64}, Pos{63}, Pos{16}, Pos{1}, Pos{0}, Pos{81}}) {
    FakeChain chain(options(), {{0, layers()}});
    Pipeline pipeline(Setup());
    PipelineRuntime& runtime = *pipeline.runtime;
    const std::vector<Token> tokens = SomeTokens(80);
    chain.Evaluate(kLaneA, tokens);
    Evaluate(runtime, kLaneA, tokens);
    EXPECT_EQ(runtime.WindowHeldFrom(kLaneA), chain.stage(0).WindowHeldFrom(kLaneA));
    const bool can = chain.stage(0).Truncate(kLaneA, end);
    EXPECT_EQ(runtime.Truncate(kLaneA, end), can) << "to " << end;
    EXPECT_EQ(runtime.End(kLaneA), can ? end : 80U);
    EXPECT_EQ(runtime.WindowHeldFrom(kLaneA), chain.stage(0).WindowHeldFrom(kLaneA));
    std::vector<Token> text(tokens.begin(), tokens.begin() + runtime.End(kLaneA));
    for (const Token token : SomeTokens(20, 4)) text.push_back(token);
    EXPECT_EQ(Evaluate(runtime, kLaneA, text), whole.Logits(text));
  }
}

TEST_P(PipelineModels, ExportWhatTheWholeModelCouldAndNothingElse) {
  Pipeline pipeline(Setup());
  FakeChain chain(options(), {{0, layers()}});
  PipelineRuntime& runtime = *pipeline.runtime;
  const std::vector<Token> tokens = SomeTokens(80);
  Evaluate(runtime, kLaneA, tokens);
  chain.Evaluate(kLaneA, tokens);
  FakeStage& whole = chain.stage(0);
  const auto bytes = [](const runtime::RuntimeInfo& info, Component component) {
    return component == Component::kKv ? info.shape.kv_row_bytes : info.shape.window_row_bytes;
  };
  for (const Component component : {Component::kKv, Component::kWindow})
    for (const PosRange rows : {PosRange{0, 8}, PosRange{39, 40}, PosRange{40, 41},
                                PosRange{72, 80}, PosRange{72, 81}, PosRange{8, 8}}) {
      std::vector<std::byte> names(rows.size() * bytes(runtime.info(), component));
      std::vector<std::byte> state(rows.size() * bytes(whole.info(), component));
      EXPECT_EQ(runtime.ExportRows(kLaneA, component, rows, names).has_value(),
                whole.ExportRows(kLaneA, component, rows, state).has_value())
          << "rows [" << rows.begin << ", " << rows.end << ")";
    }
  std::vector<std::byte> name(runtime.info().shape.snapshot_bytes);
  EXPECT_EQ(runtime.ExportSnapshot(kLaneA, name).has_value(), !name.empty());
  name.resize(name.size() + 1);
  EXPECT_FALSE(runtime.ExportSnapshot(kLaneA, name));
  EXPECT_FALSE(runtime.ExportRows(kLaneA, Component::kKv, {0, 8}, name));
  EXPECT_FALSE(runtime.ExportRows(kLaneA, Component::kLogits, {0, 8}, name));
}

// --- single cases of the port

class PipelineTest : public testing::Test {
 protected:
  PipelineTest()
      : pipeline_(SetupOf({kAttention, kWindow, kAttention}, {{0, 1}, {1, 2}, {2, 3}})) {}
  PipelineRuntime& runtime() { return *pipeline_.runtime; }
  Pipeline pipeline_;
};

TEST_F(PipelineTest, DecodeRefusesWrongPositionsAndUnknownTokensAndLeavesTheLane) {
  const std::vector<Token> tokens = SomeTokens(4);
  Evaluate(runtime(), kLaneA, tokens);
  const auto refused = [&](const DecodeItem& item) {
    const Status status = runtime().Decode({&item, 1});
    return !status && status.error().code == ErrorCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused({kLaneA, 3, tokens, true}));
  EXPECT_TRUE(refused({kLaneA, 5, tokens, true}));
  EXPECT_TRUE(refused({kLaneB, 1, tokens, true}));
  EXPECT_TRUE(refused({SeqId{2}, 0, tokens, true}));
  EXPECT_TRUE(refused({kLaneA, 4, {}, true}));
  const std::vector<Token> unknown = {1, 64};
  EXPECT_TRUE(refused({kLaneA, 4, unknown, true}));
  EXPECT_FALSE(runtime().Decode({}));
  EXPECT_EQ(runtime().End(kLaneA), 4U);
  WholeModel whole(pipeline_.options);
  std::vector<Token> text = tokens;
  text.push_back(3);
  EXPECT_EQ(Evaluate(runtime(), kLaneA, text), whole.Logits(text));
}

TEST_F(PipelineTest, DecodeRefusesShapesThatArePassesOfNoRuntime) {
  WholeModel whole(pipeline_.options);
  const std::vector<Token> tokens = SomeTokens(17);
  const auto refused = [&](const std::vector<DecodeItem>& items) {
    return !runtime().Decode(items).has_value();
  };
  EXPECT_TRUE(refused({{kLaneA, 0, tokens, true}}));
  const TokenSpan one = TokenSpan(tokens).first(1);
  EXPECT_TRUE(refused({{kLaneA, 0, one, true}, {kLaneA, 0, one, true}}));
  EXPECT_TRUE(refused({{kLaneA, 0, TokenSpan(tokens).first(2), true}, {kLaneB, 0, one, true}}));
  for (const SeqId lane : {kLaneA, kLaneB}) {
    EXPECT_EQ(runtime().End(lane), 0U);
    runtime().Clear(lane);
    EXPECT_EQ(Evaluate(runtime(), lane, tokens), whole.Logits(tokens));
  }
}

TEST_F(PipelineTest, TheContextIsTheEnd) {
  Pipeline::Setup setup = SetupOf({kAttention, kWindow}, {{0, 1}, {1, 2}});
  setup.options.context = 20;
  Pipeline pipeline(setup);
  Evaluate(*pipeline.runtime, kLaneA, SomeTokens(20));
  const std::vector<Token> next = {1};
  const DecodeItem over{kLaneA, 20, next, true};
  EXPECT_FALSE(pipeline.runtime->Decode({&over, 1}));
}

TEST_F(PipelineTest, LogitsAreGivenWhereTheyWereAskedForUntilTheNextPass) {
  const std::vector<Token> tokens = SomeTokens(4);
  const DecodeItem quiet{kLaneA, 0, tokens, false};
  ASSERT_TRUE(runtime().Decode({&quiet, 1}));
  EXPECT_TRUE(runtime().Logits(0).empty());
  const DecodeItem loud{kLaneB, 0, tokens, true};
  ASSERT_TRUE(runtime().Decode({&loud, 1}));
  EXPECT_EQ(runtime().Logits(0).size(), 64U);
  const std::vector<Token> next = {1, 2};
  const std::vector<DecodeItem> both = {{kLaneA, 4, TokenSpan(next).first(1), false},
                                        {kLaneB, 4, TokenSpan(next).last(1), true}};
  ASSERT_TRUE(runtime().Decode(both));
  EXPECT_TRUE(runtime().Logits(0).empty());
  EXPECT_EQ(runtime().Logits(1).size(), 64U);
  EXPECT_FALSE(runtime().Decode({}));
  EXPECT_TRUE(runtime().Logits(1).empty());
}

TEST_F(PipelineTest, HasNoAdapters) {
  EXPECT_TRUE(runtime().ResolveAdapters({})->empty());
  EXPECT_TRUE(runtime().UseAdapters({}));
  const std::vector<std::pair<std::uint32_t, float>> adapters = {{0, 1.0F}};
  EXPECT_EQ(runtime().ResolveAdapters(adapters).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(runtime().UseAdapters(adapters).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(PipelineTest, LanesThatDoNotExistAreEmptyAndRefused) {
  const SeqId none{9};
  EXPECT_EQ(runtime().End(none), 0U);
  EXPECT_EQ(runtime().WindowHeldFrom(none), 0U);
  runtime().Clear(none);
  runtime().Bind(none, {});
  EXPECT_FALSE(runtime().Truncate(none, 0));
  EXPECT_FALSE(runtime().Copy(none, kLaneA));
  EXPECT_FALSE(runtime().Copy(kLaneA, none));
  std::vector<std::byte> out(kKeyBytes);
  EXPECT_FALSE(runtime().ExportRows(none, Component::kKv, {0, 1}, out));
  EXPECT_FALSE(runtime().ExportSnapshot(none, out));
  EXPECT_FALSE(runtime().Import({none, 0, {}, {}, {}, {}}));
}

TEST_F(PipelineTest, APartOfAPieceIsEnoughForABranch) {
  // A cache gives rows out of the middle of blocks where two texts part.
  WholeModel whole(pipeline_.options);
  const std::vector<Token> text = SomeTokens(40);
  Evaluate(runtime(), kLaneA, text);
  const SavedBoundary saved = Save(runtime(), kLaneA, text, 16);
  std::vector<Token> branch(text.begin(), text.begin() + 21);
  for (const Token token : SomeTokens(10, 8)) branch.push_back(token);
  std::vector<RowSlice> kv = runtime::fake::Slices(saved.kv);
  std::vector<RowSlice> window = runtime::fake::Slices(saved.window);
  kv.resize(2);
  kv[1].positions.end = 21;
  // The window rows before 21 were kept when the text was as long.
  runtime().Clear(kLaneB);
  Evaluate(runtime(), kLaneB, TokenSpan(branch).first(21));
  const SavedBoundary at_branch = Save(runtime(), kLaneB, branch, 16);
  window = runtime::fake::Slices(at_branch.window);
  const TokenSpan before = TokenSpan(branch).first(21);
  const auto missing = runtime().FindMissing({kLaneB, 21, before, kv, window, {}});
  ASSERT_TRUE(missing) << missing.error().message;
  EXPECT_FALSE(missing->any());
  const Status imported = runtime().Import({kLaneB, 21, before, kv, window, {}});
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_EQ(Evaluate(runtime(), kLaneB, branch), whole.Logits(branch));
  // The rest of that block, from another block's rows on.
  std::vector<RowSlice> parts = {kv[0], kv[1], kv[1]};
  parts[1].positions = {16, 18};
  parts[2].positions = {18, 21};
  parts[2].first_row = 2;
  ASSERT_TRUE(runtime().Import({kLaneB, 21, before, parts, window, {}}));
  EXPECT_EQ(Evaluate(runtime(), kLaneB, branch), whole.Logits(branch));
}

TEST(PipelineMake, RefusesStagesThatAreNoModel) {
  Pipeline gap(SetupOf({kAttention, kAttention, kAttention}, {{0, 1}, {2, 3}}));
  ASSERT_FALSE(gap.runtime);
  EXPECT_EQ(gap.error->code, ErrorCode::kInvalidArgument);
  Pipeline none(SetupOf({kAttention}, {}));
  ASSERT_FALSE(none.runtime);
}

TEST(PipelineMake, NamesTheStageThatIsAway) {
  Pipeline::Setup setup = SetupOf({kAttention, kAttention}, {{0, 1}, {1, 2}});
  setup.faults = {{}, {{{1, LinkFault::kLostCall}}, 0, 0, {}}};
  Pipeline pipeline(setup);
  ASSERT_FALSE(pipeline.runtime);
  EXPECT_EQ(pipeline.error->code, ErrorCode::kUnavailable);
  EXPECT_NE(pipeline.error->message.find("test/1..2"), std::string::npos)
      << pipeline.error->message;
}

}  // namespace
}  // namespace skippy::pipeline
