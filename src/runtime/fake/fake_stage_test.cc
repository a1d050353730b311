// Fake stages give the whole fake model's bits wherever it is cut, and have teeth: a wrong byte of
// any layer shows in the logits.
#include "runtime/fake/fake_stage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "runtime/fake/fake_stage_testing.h"
#include "runtime/fake/fake_testing.h"

namespace skippy::runtime::fake {
namespace {

constexpr Pos kPage = 8;
constexpr Pos kBoundary = 61;  // neither on a page nor on the grid
constexpr Pos kEnd = 75;

class FakeStages : public testing::TestWithParam<NamedModel> {
 protected:
  FakeStageOptions Options() const {
    FakeStageOptions options;
    options.model = GetParam().layers;
    return options;
  }
  std::uint32_t layers() const { return static_cast<std::uint32_t>(GetParam().layers.size()); }
  const std::vector<Token> tokens_ = SomeTokens(kEnd);
};

INSTANTIATE_TEST_SUITE_P(Models, FakeStages, testing::ValuesIn(FakeModels()),
                         [](const auto& model) { return model.param.name; });

// All the state of a lane, by the whole model's layer, component and position.
using LayerState = std::map<std::tuple<std::uint32_t, Component, Pos>, std::vector<std::byte>>;

void AddBlock(const std::vector<StatePart>& parts, std::uint32_t begin, Component component,
              Pos pos, ByteSpan block, LayerState& state) {
  for (const StatePart& part : parts) {
    std::vector<std::byte>& bytes = state[{begin + part.layer, component, pos}];
    bytes.insert(bytes.end(), block.begin(),
                 block.begin() + static_cast<std::ptrdiff_t>(part.bytes));
    block = block.subspan(part.bytes);
  }
  EXPECT_TRUE(block.empty());
}

void AddState(FakeStage& stage, std::uint32_t begin, SeqId lane, TokenSpan tokens,
              LayerState& state) {
  const SavedBoundary saved = Save(stage, lane, tokens, 1);
  const auto add_pages = [&](const auto& pages, Component component) {
    for (const SavedBoundary::Page& page : pages)
      AddBlock(stage.Parts(component), begin, component, page.positions.begin, page.bytes, state);
  };
  add_pages(saved.kv, Component::kKv);
  add_pages(saved.window, Component::kWindow);
  AddBlock(stage.Parts(Component::kSnapshot), begin, Component::kSnapshot, saved.end,
           saved.snapshot, state);
}

TEST_P(FakeStages, GiveTheSameBitsAndStateWhereverTheModelIsCut) {
  for (const bool tensors_first : {false, true}) {
    std::vector<float> expected;
    std::vector<std::vector<float>> expected_step;
    LayerState expected_state;
    for (const Cut& cut : CutsOf(layers())) {
      FakeStageOptions options = Options();
      options.tensors_first = tensors_first;
      FakeChain chain(options, cut);
      const std::vector<float> logits = chain.Evaluate(kLaneB, tokens_);
      LayerState state;
      for (std::size_t i = 0; i < cut.size(); ++i)
        AddState(chain.stage(i), cut[i].first, kLaneB, tokens_, state);
      chain.Evaluate(kLaneA, SomeTokens(20, 3));
      const std::vector<Token> next = {5};
      const auto step = chain.Decode({{kLaneA, next}, {kLaneB, next}});
      if (expected.empty()) {
        expected = logits;
        expected_step = step;
        expected_state = state;
      }
      ASSERT_EQ(logits.size(), 64U);
      EXPECT_EQ(logits, expected);
      EXPECT_EQ(step, expected_step);
      EXPECT_EQ(state, expected_state);
    }
  }
}

TEST_P(FakeStages, ExportTheSameRowsInBlocksOfAnySizeAndOrder) {
  std::map<Pos, LayerState> states;
  for (const bool tensors_first : {false, true}) {
    FakeStageOptions options = Options();
    options.tensors_first = tensors_first;
    FakeChain chain(options, {{0, layers()}});
    chain.Evaluate(kLaneA, tokens_);
    FakeStage& stage = chain.stage(0);
    FakeChain other(options, {{0, layers()}});
    // In blocks of several rows, read back row by row.
    ASSERT_TRUE(Restore(other.stage(0), kLaneB, Save(stage, kLaneA, tokens_, kPage)));
    LayerState direct;
    LayerState through_blocks;
    AddState(stage, 0, kLaneA, tokens_, direct);
    AddState(other.stage(0), 0, kLaneB, tokens_, through_blocks);
    EXPECT_EQ(direct, through_blocks);
  }
}

TEST_P(FakeStages, ARestoredStageGoesOnAsTheColdRun) {
  for (const bool tensors_first : {false, true}) {
    FakeStageOptions options = Options();
    options.tensors_first = tensors_first;
    FakeChain cold(options, {{0, layers()}});
    const std::vector<float> expected = cold.Evaluate(kLaneA, tokens_);
    for (const Cut& cut : CutsOf(layers())) {
      FakeChain chain(options, cut);
      chain.Evaluate(kLaneA, TokenSpan(tokens_).first(kBoundary));
      for (std::size_t i = 0; i < cut.size(); ++i) {
        const SavedBoundary saved = Save(chain.stage(i), kLaneA, tokens_, kPage);
        ASSERT_TRUE(Restore(chain.stage(i), kLaneB, saved));
        EXPECT_EQ(chain.stage(i).End(kLaneB), kBoundary);
      }
      EXPECT_EQ(chain.Evaluate(kLaneB, tokens_), expected);
    }
  }
}

TEST_P(FakeStages, AFlippedByteOfAnyLayerShows) {
  FakeChain chain(Options(), {{0, layers()}});
  const std::vector<float> expected = chain.Evaluate(kLaneA, tokens_);
  chain.stage(0).Clear(kLaneA);
  chain.Evaluate(kLaneA, TokenSpan(tokens_).first(kBoundary));
  const SavedBoundary saved = Save(chain.stage(0), kLaneA, tokens_, kBoundary);
  const auto shows = [&](const SavedBoundary& broken) {
    EXPECT_TRUE(Restore(chain.stage(0), kLaneB, broken));
    return chain.Evaluate(kLaneB, tokens_) != expected;
  };
  EXPECT_FALSE(shows(saved));
  constexpr std::size_t kStep = 7;  // a row's worth would meet the same tensor again and again
  for (std::size_t page = 0; page < saved.kv.size(); ++page)
    for (std::size_t i = 0; i < saved.kv[page].bytes.size(); i += kStep) {
      SavedBoundary broken = saved;
      broken.kv[page].bytes[i] ^= std::byte{0x10};
      EXPECT_TRUE(shows(broken)) << "KV byte " << i;
    }
  for (std::size_t page = 0; page < saved.window.size(); ++page)
    for (std::size_t i = 0; i < saved.window[page].bytes.size(); i += kStep) {
      SavedBoundary broken = saved;
      broken.window[page].bytes[i] ^= std::byte{0x10};
      EXPECT_TRUE(shows(broken)) << "window byte " << i;
    }
  for (std::size_t i = 0; i < saved.snapshot.size(); ++i) {
    SavedBoundary broken = saved;
    broken.snapshot[i] ^= std::byte{0x01};
    EXPECT_TRUE(shows(broken)) << "snapshot byte " << i;
  }
}

TEST_P(FakeStages, OneOtherTokenAtTheStartShows) {
  FakeChain chain(Options(), {{0, 2}, {2, layers()}});
  std::vector<Token> other = tokens_;
  // Behind all windows alone nothing would be left of the first token.
  const std::size_t at = kEnd - 20;
  other[at] = (other[at] + 1) % 64;
  EXPECT_NE(chain.Evaluate(kLaneA, tokens_), chain.Evaluate(kLaneB, other));
}

TEST_P(FakeStages, TellTheirShareOfTheState) {
  for (const Cut& cut : CutsOf(layers())) {
    FakeChain chain(Options(), cut);
    for (std::size_t i = 0; i < cut.size(); ++i) {
      const MemoryShape& shape = chain.stage(i).info().shape;
      const auto sum = [&](Component component) {
        std::uint64_t bytes = 0;
        for (const StatePart& part : chain.stage(i).Parts(component)) {
          EXPECT_LT(part.layer, cut[i].second - cut[i].first);
          EXPECT_GT(part.bytes, 0U);
          bytes += part.bytes;
        }
        return bytes;
      };
      EXPECT_EQ(sum(Component::kKv), shape.kv_row_bytes);
      EXPECT_EQ(sum(Component::kWindow), shape.window_row_bytes);
      EXPECT_EQ(sum(Component::kSnapshot), shape.snapshot_bytes);
      EXPECT_EQ(sum(Component::kLogits), 0U);
      EXPECT_EQ(shape.window_tokens, shape.HasWindow() ? 24U : 0U);
      EXPECT_EQ(chain.stage(i).info().policy,
                shape.HasSnapshot() ? PayloadPolicy::kKvRecurrent : PayloadPolicy::kResidentKv);
    }
  }
}

FakeStageOptions TwoLayers() {
  FakeStageOptions options;
  options.model = {ShapeKind::kAttention, ShapeKind::kWindow};
  return options;
}

TEST(FakeStage, TakesRowsOnlyAndGivesLogitsFromTheLastStageOnly) {
  FakeChain chain(TwoLayers(), {{0, 1}, {1, 2}});
  const std::vector<Token> tokens = SomeTokens(3);
  const DecodeItem item{kLaneA, 0, tokens, true};
  EXPECT_EQ(chain.stage(0).Decode({&item, 1}).error().code, ErrorCode::kUnsupported);
  chain.Evaluate(kLaneA, tokens);
  EXPECT_EQ(chain.stage(0).output_width(), 12U);
  EXPECT_EQ(chain.stage(0).OutputRows(0).size(), 36U);
  EXPECT_TRUE(chain.stage(0).Logits(0).empty());
  EXPECT_EQ(chain.stage(1).output_width(), 0U);
  EXPECT_TRUE(chain.stage(1).OutputRows(0).empty());
  EXPECT_EQ(chain.stage(1).Logits(0).size(), 64U);
}

TEST(FakeStage, RefusesWhatIsNoStep) {
  FakeChain chain(TwoLayers(), {{0, 1}, {1, 2}});
  FakeStage& stage = chain.stage(0);
  const std::vector<float> rows(12 * 17);
  const auto code = [&](Pos pos, std::size_t values) {
    const RowsItem item{kLaneA, pos, std::span(rows).first(values), false};
    return stage.DecodeRows({&item, 1}).error().code;
  };
  EXPECT_EQ(code(0, 13), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(0, 0), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(0, 12 * 17), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(1, 12), ErrorCode::kInvalidArgument);
  EXPECT_EQ(stage.End(kLaneA), 0U);
  EXPECT_TRUE(stage.OutputRows(0).empty());
}

TEST(FakeStage, EveryBitOfARowCounts) {
  FakeChain chain(TwoLayers(), {{0, 2}});
  FakeStage& stage = chain.stage(0);
  std::vector<float> rows(12);
  ASSERT_TRUE(FakeRows(12, 64).Rows(std::vector<Token>{7}, rows));
  const auto logits = [&] {
    stage.Clear(kLaneA);
    const RowsItem item{kLaneA, 0, rows, true};
    EXPECT_TRUE(stage.DecodeRows({&item, 1}));
    return std::vector<float>(stage.Logits(0).begin(), stage.Logits(0).end());
  };
  const std::vector<float> expected = logits();
  EXPECT_EQ(logits(), expected);
  for (float& value : rows) {
    const float right = value;
    value = std::nextafter(right, 1e9F);
    EXPECT_NE(logits(), expected);
    value = std::nanf("");
    EXPECT_NE(logits(), expected);
    value = right;
  }
}

TEST(FakeStage, ShapeNoiseChangesLowBitsAndNeverTokens) {
  FakeStageOptions options = TwoLayers();
  options.shape_noise = true;
  FakeChain chain(options, {{0, 1}, {1, 2}});
  const std::vector<Token> tokens = SomeTokens(16);
  const std::vector<float> in_one_chunk = chain.Evaluate(kLaneA, tokens);
  std::vector<float> one_by_one;
  for (Pos i = 0; i < 16; ++i)
    one_by_one = chain.Decode({{kLaneB, TokenSpan(tokens).subspan(i, 1)}}).front();
  EXPECT_NE(in_one_chunk, one_by_one);
  for (std::size_t i = 0; i < in_one_chunk.size(); ++i)
    EXPECT_EQ(std::floor(in_one_chunk[i]), std::floor(one_by_one[i]));
}

TEST(FakeStage, OtherWeightsAndOtherLayersAreOtherFunctions) {
  FakeStageOptions options = TwoLayers();
  options.model = {ShapeKind::kAttention, ShapeKind::kAttention};
  const std::vector<Token> tokens = SomeTokens(3);
  const auto rows_of = [&](const FakeStageOptions& with, std::uint32_t begin) {
    FakeChain chain(with, {{begin, begin + 1}});
    chain.Evaluate(kLaneA, tokens);
    SavedBoundary saved = Save(chain.stage(0), kLaneA, tokens, kPage);
    return saved.kv.front().bytes;
  };
  const auto first = rows_of(options, 0);
  EXPECT_NE(rows_of(options, 1), first);
  options.weights_seed = 2;
  EXPECT_NE(rows_of(options, 0), first);
}

TEST(FakeStage, MovesLanesAsTheFakeRuntimeDoes) {
  FakeChain chain(TwoLayers(), {{0, 2}});  // a window of 24, a ring of 40
  FakeStage& stage = chain.stage(0);
  const std::vector<Token> tokens = SomeTokens(80);
  chain.Evaluate(kLaneA, tokens);
  EXPECT_EQ(stage.WindowHeldFrom(kLaneA), 40U);
  EXPECT_FALSE(stage.Truncate(kLaneA, 63));
  EXPECT_FALSE(stage.Truncate(kLaneA, 81));
  EXPECT_EQ(stage.End(kLaneA), 80U);
  ASSERT_TRUE(stage.Truncate(kLaneA, 64));
  EXPECT_EQ(stage.End(kLaneA), 64U);
  ASSERT_TRUE(stage.Copy(kLaneA, kLaneB));
  EXPECT_FALSE(stage.Copy(kLaneA, kLaneB));
  const std::vector<float> copied = chain.Evaluate(kLaneB, tokens);
  EXPECT_EQ(chain.Evaluate(kLaneA, tokens), copied);
  stage.Clear(kLaneA);
  EXPECT_EQ(chain.Evaluate(kLaneA, tokens), copied);
  ASSERT_TRUE(stage.Truncate(kLaneA, 0));
  EXPECT_EQ(stage.End(kLaneA), 0U);
}

TEST(FakeStage, AStageOfRecurrentLayersAloneCannotBeCutBack) {
  FakeStageOptions options;
  options.model = {ShapeKind::kRecurrent, ShapeKind::kAttention};
  FakeChain chain(options, {{0, 1}, {1, 2}});
  chain.Evaluate(kLaneA, SomeTokens(20));
  EXPECT_FALSE(chain.stage(0).Truncate(kLaneA, 19));
  EXPECT_TRUE(chain.stage(1).Truncate(kLaneA, 19));
  std::vector<std::byte> row(100);
  EXPECT_EQ(chain.stage(0).ExportRows(kLaneA, Component::kKv, {0, 1}, row).error().code,
            ErrorCode::kUnsupported);
  EXPECT_EQ(chain.stage(1).ExportSnapshot(kLaneA, row).error().code, ErrorCode::kUnsupported);
}

TEST(FakeStage, FaultsAreAsPlanned) {
  FakeStageOptions options = TwoLayers();
  options.end = 2;
  FaultPlan faults;
  faults.fail_decode.calls = {2};
  faults.nan_decode.calls = {3};
  faults.fail_import.calls = {1};
  faults.lie_import.calls = {2};
  faults.fail_export.calls = {1};
  FakeStage stage(options, faults);
  const FakeRows table(12, 64);
  const std::vector<Token> tokens = SomeTokens(16);
  std::vector<float> rows(tokens.size() * 12);
  ASSERT_TRUE(table.Rows(tokens, rows));
  const auto decode = [&](SeqId lane) {
    stage.Clear(lane);
    const RowsItem item{lane, 0, rows, true};
    return stage.DecodeRows({&item, 1});
  };
  ASSERT_TRUE(decode(kLaneA));
  const std::vector<float> right(stage.Logits(0).begin(), stage.Logits(0).end());
  EXPECT_FALSE(decode(kLaneB));
  EXPECT_TRUE(stage.Logits(0).empty());
  ASSERT_TRUE(decode(kLaneB));
  EXPECT_TRUE(std::isnan(stage.Logits(0).front()));
  std::vector<std::byte> block(16 * stage.info().shape.kv_row_bytes);
  EXPECT_FALSE(stage.ExportRows(kLaneA, Component::kKv, {0, 16}, block));
  const SavedBoundary saved = Save(stage, kLaneA, tokens, kPage);
  EXPECT_FALSE(Restore(stage, kLaneB, saved));
  EXPECT_EQ(stage.End(kLaneB), 0U);
  EXPECT_TRUE(Restore(stage, kLaneB, saved));
  EXPECT_EQ(stage.End(kLaneB), 15U);
  ASSERT_TRUE(decode(kLaneB));
  EXPECT_EQ(std::vector<float>(stage.Logits(0).begin(), stage.Logits(0).end()), right);
  EXPECT_EQ(stage.counters().faults, 5U);
}

TEST(FakeRows, TokensHaveRowsOfTheirOwnAndUnknownOnesNone) {
  const FakeRows table(12, 64);
  std::vector<Token> all(64);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Token>(i);
  std::vector<float> rows(all.size() * 12);
  ASSERT_TRUE(table.Rows(all, rows));
  std::set<std::vector<float>> distinct;
  for (std::size_t i = 0; i < rows.size(); i += 12)
    distinct.insert(std::vector<float>(&rows[i], &rows[i] + 12));
  EXPECT_EQ(distinct.size(), 64U);
  std::vector<float> one(12);
  EXPECT_FALSE(table.Rows(std::vector<Token>{64}, one));
  EXPECT_FALSE(table.Rows(std::vector<Token>{-1}, one));
  EXPECT_FALSE(table.Rows(std::vector<Token>{1, 2}, one));
}

}  // namespace
}  // namespace skippy::runtime::fake
