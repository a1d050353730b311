#include "pipeline/stage_host.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "pipeline/stage_host_testing.h"

namespace skippy::pipeline {
namespace {

using enum runtime::fake::ShapeKind;
using runtime::RowsItem;

// --- sessions

class StageHostTest : public testing::Test {
 protected:
  StageHostTest() : process_(Options({kAttention, kWindow}), 1 << 20) {}
  StageHost& host() { return process_.host(); }
  std::vector<RowsItem> OneRow(Pos pos = 0) {
    rows_ = RowsOf(process_.options(), std::vector<Token>{5});
    return {{kLaneA, pos, rows_, true}};
  }
  StageProcess process_;
  std::vector<float> rows_;
};

TEST_F(StageHostTest, DescribesItself) {
  const auto description = host().Attach();
  ASSERT_TRUE(description);
  EXPECT_EQ(description->package, PackageOf(process_.options()));
  EXPECT_EQ(description->info.lanes, 2U);
  EXPECT_EQ(description->info.shape, process_.runtime().info().shape);
  EXPECT_EQ(description->input_width, 12U);
  EXPECT_EQ(description->output_width, 0U);
  EXPECT_NE(description->session, 0U);
}

TEST(StageHostCap, WithoutMemoryItSaysThatItKeepsNothing) {
  StageProcess process(Options({kAttention, kWindow}), std::uint64_t{0});
  const auto description = process.host().Attach();
  ASSERT_TRUE(description);
  EXPECT_EQ(description->info.policy, PayloadPolicy::kOff);
  EXPECT_NE(description->info.policy_reason.find("--cache-ram"), std::string::npos);
}

TEST_F(StageHostTest, NothingGoesBeforeAttaching) {
  for (const std::uint64_t session : {std::uint64_t{0}, std::uint64_t{1}}) {
    EXPECT_EQ(CodeOf(host().Decode({session, 1}, OneRow())), ErrorCode::kUnavailable);
    EXPECT_EQ(CodeOf(host().Clear({session, 1}, kLaneA)), ErrorCode::kUnavailable);
    EXPECT_EQ(CodeOf(host().Truncate({session, 1}, kLaneA, 0)), ErrorCode::kUnavailable);
    EXPECT_EQ(CodeOf(host().Copy({session, 1}, kLaneA, kLaneB)), ErrorCode::kUnavailable);
    EXPECT_EQ(CodeOf(host().Keep({session, 1}, kLaneA, {})), ErrorCode::kUnavailable);
    EXPECT_EQ(CodeOf(host().Held({session, 1}, {})), ErrorCode::kUnavailable);
    EXPECT_EQ(CodeOf(host().Restore({session, 1}, {})), ErrorCode::kUnavailable);
  }
  LocalLink link(host());
  EXPECT_EQ(CodeOf(link.Decode(OneRow())), ErrorCode::kUnavailable);
}

TEST_F(StageHostTest, AttachingEmptiesAllLanesAndEndsTheSessionBefore) {
  LocalLink first(host());
  ASSERT_TRUE(first.Attach());
  ASSERT_TRUE(first.Decode(OneRow()));
  LocalLink second(host());
  ASSERT_TRUE(second.Attach());
  EXPECT_EQ(process_.runtime().End(kLaneA), 0U);
  ASSERT_TRUE(second.Decode(OneRow()));
  // What the first one sends takes no effect any more.
  EXPECT_EQ(CodeOf(first.Decode(OneRow(1))), ErrorCode::kUnavailable);
  EXPECT_EQ(CodeOf(first.Clear(kLaneA)), ErrorCode::kUnavailable);
  EXPECT_EQ(process_.runtime().End(kLaneA), 1U);
  EXPECT_TRUE(second.Decode(OneRow(1)));
  ASSERT_TRUE(first.Attach());
  EXPECT_TRUE(first.Decode(OneRow()));
}

TEST_F(StageHostTest, SessionsAreNeverTheSame) {
  std::set<std::uint64_t> sessions;
  for (int i = 0; i < 20; ++i) {
    StageProcess other(process_.options(), 100);
    sessions.insert(other.host().Attach()->session);
    sessions.insert(host().Attach()->session);
  }
  EXPECT_EQ(sessions.size(), 40U);
}

TEST_F(StageHostTest, OvertakenCallsTakeNoEffect) {
  const std::uint64_t session = host().Attach()->session;
  ASSERT_TRUE(host().Decode({session, 5}, OneRow()));
  for (const std::uint64_t number : {4U, 5U, 0U}) {
    const auto decoded = host().Decode({session, number}, OneRow(1));
    EXPECT_FALSE(decoded);
    EXPECT_NE(decoded.error().code, ErrorCode::kUnavailable);
    EXPECT_FALSE(host().Clear({session, number}, kLaneA));
    EXPECT_FALSE(host().Truncate({session, number}, kLaneA, 0));
    EXPECT_FALSE(host().Keep({session, number}, kLaneA, {}));
  }
  EXPECT_EQ(process_.runtime().End(kLaneA), 1U);
  EXPECT_EQ(process_.store().pieces(), 0U);
  // A call that fails counts too: nothing sent before it may come after it.
  EXPECT_FALSE(host().Decode({session, 9}, OneRow(7)));
  EXPECT_FALSE(host().Decode({session, 8}, OneRow(1)));
  EXPECT_TRUE(host().Decode({session, 10}, OneRow(1)));
  // A call of another session does not count.
  EXPECT_FALSE(host().Clear({session + 1, 1000}, kLaneA));
  EXPECT_TRUE(host().Decode({session, 11}, OneRow(2)));
}

TEST_F(StageHostTest, RefusesLanesThatDoNotExist) {
  Session session(host());
  const SeqId none{2};
  const std::vector<float> row = RowsOf(process_.options(), std::vector<Token>{5});
  const RowsItem item{none, 0, row, true};
  EXPECT_EQ(CodeOf(session.link.Decode({&item, 1})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(session.link.Clear(none)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(session.link.Truncate(none, 0)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(session.link.Copy(none, kLaneA)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(session.link.Copy(kLaneA, none)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(session.link.Keep(none, {})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(session.link.Restore({none, 1, {}, {}, {}})), ErrorCode::kInvalidArgument);
}

TEST_F(StageHostTest, MovesLanesAndSaysWhereTheyAre) {
  Session session(host());  // a window of 24, a ring of 40
  const std::vector<Token> tokens = SomeTokens(80);
  session.Evaluate(kLaneA, 0, RowsOf(process_.options(), tokens));
  EXPECT_EQ(CodeOf(session.link.Truncate(kLaneA, 63)), ErrorCode::kUnsupported);
  EXPECT_EQ(process_.runtime().End(kLaneA), 80U);
  const auto cut = session.link.Truncate(kLaneA, 70);
  ASSERT_TRUE(cut);
  EXPECT_EQ(*cut, (LanePlace{70, 40}));
  const auto copied = session.link.Copy(kLaneA, kLaneB);
  ASSERT_TRUE(copied);
  EXPECT_EQ(*copied, (LanePlace{70, 40}));
  EXPECT_FALSE(session.link.Copy(kLaneA, kLaneB));
  ASSERT_TRUE(session.link.Clear(kLaneB));
  EXPECT_EQ(process_.runtime().End(kLaneB), 0U);
}

TEST_F(StageHostTest, OneCallAtATimeWhoeverCalls) {
  const std::uint64_t session = host().Attach()->session;
  const std::vector<float> row = RowsOf(process_.options(), std::vector<Token>{5});
  std::vector<std::thread> threads;
  for (std::uint32_t lane = 0; lane < 2; ++lane)
    threads.emplace_back([&, lane] {
      for (std::uint64_t i = 1; i <= 200; ++i) {
        const RowsItem item{SeqId{lane}, static_cast<Pos>(i % 3), row, true};
        std::ignore = host().Decode({session, i * 2 + lane}, {&item, 1});
        std::ignore = host().Clear({session, i * 2 + lane}, SeqId{lane});
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(host().Attach());
}

// --- keeping and restoring

class StageHostModels : public testing::TestWithParam<NamedModel> {};
INSTANTIATE_TEST_SUITE_P(Models, StageHostModels, testing::ValuesIn(runtime::fake::FakeModels()),
                         [](const auto& model) { return model.param.name; });

TEST_P(StageHostModels, WhatWasKeptUnderOneCutIsRestoredUnderAnother) {
  constexpr Pos kBoundary = 61;
  const std::vector<Token> tokens = SomeTokens(75);
  const TokenSpan prefix = TokenSpan(tokens).first(kBoundary);
  for (const bool tensors_first : {false, true}) {
    FakeStageOptions options = Options(GetParam().layers);
    options.tensors_first = tensors_first;
    const std::uint32_t layers = options.end;
    WholeModel whole(options);
    const std::vector<float> expected = whole.Logits(tokens);
    const std::vector<Cut> cuts = runtime::fake::CutsOf(layers);
    const auto run = [&](const Cut& cut, PieceStore& store, bool keep) {
      std::vector<float> rows = RowsOf(options, tokens);
      for (const auto& [begin, end] : cut) {
        FakeStageOptions own = options;
        own.begin = begin;
        own.end = end;
        FakeStage stage(own);
        StageHost host(PackageOf(own), stage, store);
        Session session(host);
        const auto at = static_cast<std::ptrdiff_t>(std::size_t{kBoundary} * options.width);
        const std::vector<float> before(rows.begin(), rows.begin() + at);
        std::vector<float> after(rows.begin() + at, rows.end());
        std::vector<float> left;
        if (keep) {
          left = session.Evaluate(kLaneA, 0, before);
          session.KeepAll(kLaneA, prefix);
        } else {
          const auto pieces = PiecesOf(session.shape(), prefix);
          EXPECT_EQ(*session.link.Held(pieces), std::vector<bool>(pieces.size(), true));
          const auto place = session.link.Restore(RestoreOf(kLaneA, session.shape(), prefix));
          EXPECT_TRUE(place) << (place ? "" : place.error().message);
          EXPECT_EQ(place->end, kBoundary);
          EXPECT_LE(place->window_from, session.shape().WindowBegin(kBoundary));
          left.resize(before.size());  // what is restored is not computed again
        }
        const std::vector<float> rest = session.Evaluate(kLaneA, kBoundary, after);
        if (end == layers) return rest;
        left.insert(left.end(), rest.begin(), rest.end());
        rows = std::move(left);
      }
      return std::vector<float>{};
    };
    for (const Cut& kept : cuts)
      for (const Cut& restored : cuts) {
        PieceStore store(1 << 24);
        ASSERT_EQ(run(kept, store, true), expected);
        ASSERT_EQ(run(restored, store, false), expected);
      }
  }
}

TEST(StageHostKeep, HeldIsWhatCouldBeRestored) {
  StageProcess process(Options({kAttention, kHybridWindow}), 1 << 20);
  Session session(process.host());
  const std::vector<Token> tokens = SomeTokens(30);
  session.Evaluate(kLaneA, 0, RowsOf(process.options(), tokens));
  session.KeepAll(kLaneA, tokens);
  const std::vector<PieceKey> pieces = PiecesOf(session.shape(), tokens);
  EXPECT_EQ(*session.link.Held(pieces), std::vector<bool>(pieces.size(), true));
  // Another text, other positions, another component: not held.
  std::vector<PieceKey> others = {pieces[0], pieces[0], pieces[0]};
  others[0].name.bytes[0] ^= 1;
  others[1].positions.begin += 1;
  others[2].component = Component::kSnapshot;
  EXPECT_EQ(*session.link.Held(others), std::vector<bool>(3, false));
  EXPECT_TRUE(session.link.Held({})->empty());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    StageProcess fresh(process.options(), 1 << 20);
    Session again(fresh.host());
    again.Evaluate(kLaneA, 0, RowsOf(process.options(), tokens));
    again.KeepAll(kLaneA, tokens);
    fresh.store().Drop(pieces[i]);
    std::vector<bool> held(pieces.size(), true);
    held[i] = false;
    EXPECT_EQ(*again.link.Held(pieces), held);
    const auto place = again.link.Restore(RestoreOf(kLaneB, again.shape(), tokens));
    EXPECT_EQ(CodeOf(place), ErrorCode::kNotFound);
    EXPECT_EQ(fresh.runtime().End(kLaneB), 0U);
    EXPECT_EQ(fresh.runtime().End(kLaneA), 30U);
  }
}

TEST(StageHostKeep, ALayerThatNobodyKeptIsNotHeld) {
  PieceStore store(1 << 20);
  FakeStageOptions options = Options({kAttention, kAttention, kAttention});
  const std::vector<Token> tokens = SomeTokens(16);
  options.end = 2;
  FakeStage front(options);
  StageHost front_host(PackageOf(options), front, store);
  Session first(front_host);
  first.Evaluate(kLaneA, 0, RowsOf(options, tokens));
  first.KeepAll(kLaneA, tokens);
  options.begin = 1;
  options.end = 3;
  FakeStage back(options);
  StageHost back_host(PackageOf(options), back, store);
  Session second(back_host);
  const std::vector<PieceKey> pieces = PiecesOf(second.shape(), tokens);
  EXPECT_EQ(*second.link.Held(pieces), std::vector<bool>(pieces.size(), false));
  EXPECT_EQ(CodeOf(second.link.Restore(RestoreOf(kLaneA, second.shape(), tokens))),
            ErrorCode::kNotFound);
}

TEST(StageHostKeep, APartOfAPieceIsEnoughForAShorterText) {
  // A text that branches off in the middle of a piece reads the rows before the branch.
  const FakeStageOptions options = Options({kAttention, kMla, kAttention});
  StageProcess process(options, 1 << 20);
  Session session(process.host());
  std::vector<Token> text = SomeTokens(32);
  session.Evaluate(kLaneA, 0, RowsOf(options, text));
  const PieceKey first{NameOf(TokenSpan(text).first(10)), Component::kKv, {0, 10}};
  const PieceKey second{NameOf(TokenSpan(text).first(30)), Component::kKv, {10, 30}};
  ASSERT_TRUE(session.link.Keep(kLaneA, first));
  ASSERT_TRUE(session.link.Keep(kLaneA, second));
  std::vector<Token> branch(text.begin(), text.begin() + 21);
  for (const Token token : SomeTokens(20, 9)) branch.push_back(token);
  const auto place =
      session.link.Restore({kLaneB, 21, {{first, {0, 10}}, {second, {10, 21}}}, {}, std::nullopt});
  ASSERT_TRUE(place) << place.error().message;
  const std::vector<float> rows = RowsOf(options, branch);
  WholeModel whole(options);
  EXPECT_EQ(session.Evaluate(kLaneB, 21, std::span(rows).subspan(std::size_t{21} * 12)),
            whole.Logits(branch));
  // And from within: rows [12, 18) between two pieces of it.
  const auto again = session.link.Restore(
      {kLaneB, 18, {{first, {0, 10}}, {second, {10, 12}}, {second, {12, 18}}}, {}, std::nullopt});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(session.Evaluate(kLaneB, 18, std::span(rows).subspan(std::size_t{18} * 12)),
            whole.Logits(branch));
}

TEST(StageHostKeep, RefusesToKeepWhatTheLaneDoesNotHold) {
  StageProcess process(Options({kWindow, kHybrid}), 1 << 20);
  Session session(process.host());
  const std::vector<Token> tokens = SomeTokens(60);
  session.Evaluate(kLaneA, 0, RowsOf(process.options(), tokens));  // window rows from 20 on
  const auto keep = [&](Component component, PosRange positions) {
    return session.link.Keep(kLaneA, {NameOf(tokens), component, positions});
  };
  EXPECT_FALSE(keep(Component::kKv, {50, 61}));
  EXPECT_FALSE(keep(Component::kKv, {60, 60}));
  EXPECT_FALSE(keep(Component::kKv, {10, 9}));
  EXPECT_FALSE(keep(Component::kWindow, {19, 24}));
  EXPECT_FALSE(keep(Component::kSnapshot, {59, 59}));
  EXPECT_FALSE(keep(Component::kSnapshot, {61, 61}));
  EXPECT_FALSE(keep(Component::kLogits, {0, 60}));
  EXPECT_EQ(process.store().pieces(), 0U);
  EXPECT_TRUE(keep(Component::kKv, {50, 60}));
  EXPECT_TRUE(keep(Component::kWindow, {20, 24}));
  EXPECT_TRUE(keep(Component::kSnapshot, {60, 60}));
  EXPECT_EQ(process.store().pieces(), 3U);
  StageProcess plain(Options({kAttention}), 1 << 20);
  Session other(plain.host());
  other.Evaluate(kLaneA, 0, RowsOf(plain.options(), tokens));
  EXPECT_EQ(CodeOf(other.link.Keep(kLaneA, {NameOf(tokens), Component::kSnapshot, {60, 60}})),
            ErrorCode::kUnsupported);
  EXPECT_EQ(CodeOf(other.link.Keep(kLaneA, {NameOf(tokens), Component::kWindow, {59, 60}})),
            ErrorCode::kUnsupported);
}

TEST(StageHostKeep, AFailedExportKeepsNothing) {
  FaultPlan faults;
  faults.fail_export.calls = {1, 2};
  StageProcess process(Options({kHybrid}), 1 << 20, faults);
  Session session(process.host());
  const std::vector<Token> tokens = SomeTokens(16);
  session.Evaluate(kLaneA, 0, RowsOf(process.options(), tokens));
  const std::vector<PieceKey> pieces = PiecesOf(session.shape(), tokens);
  EXPECT_FALSE(session.link.Keep(kLaneA, pieces.front()));
  EXPECT_FALSE(session.link.Keep(kLaneA, pieces.back()));
  EXPECT_EQ(process.store().pieces(), 0U);
}

TEST(StageHostKeep, AStoreTooSmallForAPieceSaysSo) {
  StageProcess process(Options({kAttention}), 100);  // a row has 28 bytes
  Session session(process.host());
  const std::vector<Token> tokens = SomeTokens(8);
  session.Evaluate(kLaneA, 0, RowsOf(process.options(), tokens));
  EXPECT_EQ(CodeOf(session.link.Keep(kLaneA, {NameOf(tokens), Component::kKv, {0, 8}})),
            ErrorCode::kResourceExhausted);
  EXPECT_TRUE(session.link.Keep(kLaneA, {NameOf(tokens), Component::kKv, {0, 3}}));
}

TEST(StageHostKeep, KeepingAgainReplaces) {
  // Equal text, other bits: real kernels round otherwise in other batches.
  FakeStageOptions options = Options({kAttention});
  options.shape_noise = true;
  StageProcess process(options, 1 << 20);
  Session session(process.host());
  const std::vector<Token> tokens = SomeTokens(16);
  const std::vector<float> rows = RowsOf(options, tokens);
  session.Evaluate(kLaneA, 0, rows);
  session.KeepAll(kLaneA, tokens);
  const std::uint64_t bytes = process.store().bytes();
  for (Pos i = 0; i < 16; ++i)
    session.Evaluate(kLaneB, i, std::span(rows).subspan(std::size_t{i} * 12, 12));
  session.KeepAll(kLaneB, tokens);
  EXPECT_EQ(process.store().bytes(), bytes);
  ASSERT_TRUE(session.link.Clear(kLaneA));
  ASSERT_TRUE(session.link.Restore(RestoreOf(kLaneA, session.shape(), tokens)));
  const auto block = [&](SeqId lane) {
    std::vector<std::byte> out(16 * session.shape().kv_row_bytes);
    EXPECT_TRUE(process.runtime().ExportRows(lane, Component::kKv, {0, 16}, out));
    return out;
  };
  EXPECT_EQ(block(kLaneA), block(kLaneB));
}

TEST(StageHostKeep, RefusesRestoresThatMakeNoSenseAndEmptiesTheLane) {
  const FakeStageOptions options = Options({kAttention, kWindowOnly});
  StageProcess process(options, 1 << 20);
  Session session(process.host());
  const std::vector<Token> tokens = SomeTokens(40);
  const std::vector<float> rows = RowsOf(options, tokens);
  session.Evaluate(kLaneA, 0, rows);
  session.KeepAll(kLaneA, tokens);
  const StageRestore right = RestoreOf(kLaneB, session.shape(), tokens);
  const auto refused = [&](const auto& change) {
    StageRestore wrong = right;
    change(wrong);
    // A lane that holds something else before.
    std::ignore = session.link.Clear(kLaneB);
    session.Evaluate(kLaneB, 0, std::span(rows).first(12));
    const bool ok = session.link.Restore(wrong).has_value();
    return !ok && process.runtime().End(kLaneB) == 0;
  };
  using R = StageRestore;
  EXPECT_FALSE(refused([](R&) {}));
  EXPECT_TRUE(refused([](R& r) { r.kv.erase(r.kv.begin() + 1); }));
  EXPECT_TRUE(refused([](R& r) { r.kv.pop_back(); }));
  EXPECT_TRUE(refused([](R& r) { r.kv.clear(); }));
  EXPECT_TRUE(refused([](R& r) { std::swap(r.kv[0], r.kv[1]); }));
  EXPECT_TRUE(refused([](R& r) { r.window.erase(r.window.begin()); }));
  EXPECT_TRUE(refused([](R& r) { std::swap(r.kv, r.window); }));
  EXPECT_TRUE(refused([](R& r) { r.end = 39; }));
  EXPECT_TRUE(refused([](R& r) { r.end = 0; }));
  EXPECT_TRUE(refused([](R& r) { r.end = 1000; }));
  EXPECT_TRUE(refused([](R& r) { r.end = std::numeric_limits<Pos>::max(); }));
  EXPECT_TRUE(refused([](R& r) { r.kv[0].positions = {0, 9}; }));
  EXPECT_TRUE(refused([](R& r) { r.kv[1].positions = {7, 16}; }));
  EXPECT_TRUE(refused([](R& r) { r.kv[0].positions = {8, 0}; }));
  EXPECT_TRUE(refused([](R& r) { r.kv[0].piece.component = Component::kLogits; }));
  EXPECT_TRUE(refused([&](R& r) { r.snapshot = r.kv[0].piece; }));
}

TEST(StageHostKeep, AFailedImportEmptiesTheLane) {
  FaultPlan faults;
  faults.fail_import.calls = {1};
  faults.lie_import.calls = {2};
  StageProcess process(Options({kAttention}), 1 << 20, faults);
  Session session(process.host());
  const std::vector<Token> tokens = SomeTokens(16);
  session.Evaluate(kLaneA, 0, RowsOf(process.options(), tokens));
  session.KeepAll(kLaneA, tokens);
  const StageRestore restore = RestoreOf(kLaneB, session.shape(), tokens);
  EXPECT_FALSE(session.link.Restore(restore));
  EXPECT_EQ(process.runtime().End(kLaneB), 0U);
  const auto lied = session.link.Restore(restore);
  ASSERT_TRUE(lied);
  EXPECT_EQ(lied->end, 15U);  // it says what is, not what should be
  EXPECT_EQ(session.link.Restore(restore)->end, 16U);
}

TEST(StageHostKeep, BytesOfAnotherSizeAreNotRestored) {
  // Kept by a process that was started with another type of keys and values.
  StageProcess process(Options({kAttention}), 1 << 20);
  Session session(process.host());
  const std::vector<Token> tokens = SomeTokens(8);
  const PieceKey key{NameOf(tokens), Component::kKv, {0, 8}};
  const auto bytes = std::make_shared<const std::vector<std::byte>>(7);
  const std::vector<std::pair<std::uint32_t, LayerBytes>> layers = {{0, bytes}};
  ASSERT_TRUE(process.store().Put(key, layers));
  EXPECT_FALSE(session.link.Restore({kLaneA, 8, {{key, {0, 8}}}, {}, std::nullopt}));
  EXPECT_EQ(process.runtime().End(kLaneA), 0U);
  // Asked again it is not there, so that nobody tries for ever.
  EXPECT_EQ(*session.link.Held({&key, 1}), std::vector<bool>{false});
}

TEST(StageHostKeep, UnderPressureAPrefixOutlivesItsEnd) {
  // Seven pieces of 8 rows of 28 bytes; room for four.
  StageProcess process(Options({kAttention}), 4 * 8 * 28);
  Session session(process.host());
  const std::vector<Token> tokens = SomeTokens(32);
  session.Evaluate(kLaneA, 0, RowsOf(process.options(), tokens));
  session.KeepAll(kLaneA, tokens);
  // Used as a whole: what goes first of it is its end.
  ASSERT_TRUE(session.link.Restore(RestoreOf(kLaneB, session.shape(), tokens)));
  const std::vector<Token> other = SomeTokens(16, 9);
  ASSERT_TRUE(session.link.Clear(kLaneB));
  session.Evaluate(kLaneB, 0, RowsOf(process.options(), other));
  session.KeepAll(kLaneB, other);
  const std::vector<PieceKey> pieces = PiecesOf(session.shape(), tokens);
  EXPECT_EQ(*session.link.Held(pieces), (std::vector<bool>{true, true, false, false}));
}

TEST(StageHostKeep, WhatALaneGoesOnFromIsUsedWithWhatIsKeptNext) {
  StageProcess process(Options({kAttention}), 5 * 8 * 28);
  Session session(process.host());
  const std::vector<Token> tokens = SomeTokens(32);
  const std::vector<float> rows = RowsOf(process.options(), tokens);
  const std::size_t half = rows.size() / 2;
  const auto other = [&](std::uint64_t seed) {
    const std::vector<Token> text = SomeTokens(8, seed);
    ASSERT_TRUE(session.link.Clear(kLaneB));
    session.Evaluate(kLaneB, 0, RowsOf(process.options(), text));
    session.KeepAll(kLaneB, text);
  };
  session.Evaluate(kLaneA, 0, std::span(rows).first(half));
  session.KeepAll(kLaneA, TokenSpan(tokens).first(16));
  other(8);
  session.Evaluate(kLaneA, 16, std::span(rows).subspan(half));
  const std::vector<PieceKey> pieces = PiecesOf(session.shape(), tokens);
  ASSERT_TRUE(session.link.Keep(kLaneA, pieces[2]));
  ASSERT_TRUE(session.link.Keep(kLaneA, pieces[3]));
  other(9);  // in place of the other text
  EXPECT_EQ(*session.link.Held(pieces), std::vector<bool>(4, true));
  other(10);
  EXPECT_EQ(*session.link.Held(pieces), (std::vector<bool>{true, true, true, false}));
}

TEST(StageHostKeep, OfATextThatWasKeptPieceByPieceTheEndGoesFirst) {
  StageProcess process(Options({kAttention}), 4 * 8 * 28);
  Session session(process.host());
  const std::vector<Token> tokens = SomeTokens(32);
  session.Evaluate(kLaneA, 0, RowsOf(process.options(), tokens));
  session.KeepAll(kLaneA, tokens);
  const std::vector<Token> other = SomeTokens(8, 9);
  session.Evaluate(kLaneB, 0, RowsOf(process.options(), other));
  session.KeepAll(kLaneB, other);
  const std::vector<PieceKey> pieces = PiecesOf(session.shape(), tokens);
  EXPECT_EQ(*session.link.Held(pieces), (std::vector<bool>{true, true, true, false}));
}

}  // namespace
}  // namespace skippy::pipeline
