#include "bench/replay.h"

#include <gtest/gtest.h>

#include <random>

#include "bench/optimum.h"
#include "bench/replay_report.h"
#include "runtime/fake/fake_runtime.h"

namespace skippy::bench {
namespace {

using runtime::fake::FakeOptions;
using runtime::fake::FakeRuntime;
using runtime::fake::ShapeKind;

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 30U;

FakeRuntime NewRuntime(ShapeKind shape) {
  FakeOptions options;
  options.shape = shape;
  options.lanes = 1;
  options.context = 256;
  options.chunk = 16;
  options.vocab = 1024;
  return FakeRuntime(options);
}

// Conversations that grow, and branches off them, each with a tail of its own.
Trace RandomTrace(std::uint32_t seed) {
  std::mt19937 random(seed);
  Trace trace;
  trace.block_tokens = 16;
  std::vector<std::vector<std::uint64_t>> paths = {{}};
  std::uint64_t fresh = 1;
  for (int i = 0; i < 60; ++i) {
    std::vector<std::uint64_t> path = paths[random() % paths.size()];
    if (random() % 3 == 0) path.resize(path.size() / 2);
    for (std::uint64_t n = 1 + random() % 3; n > 0 && path.size() < 13; --n)
      path.push_back(fresh++);
    paths.push_back(path);
    path.push_back(fresh++);
    const auto tail = static_cast<std::uint32_t>(1 + random() % 15);
    trace.requests.push_back(
        {0, static_cast<std::uint32_t>((path.size() - 1) * 16) + tail, 0, path});
    if (random() % 4 == 0) trace.requests.push_back(trace.requests.back());
  }
  return trace;
}

TEST(ReplayTest, WithoutACapAttentionEvaluatesWhatAPerfectTreeDoes) {
  for (const std::uint32_t seed : {1U, 2U, 3U}) {
    const Trace trace = RandomTrace(seed);
    FakeRuntime runtime = NewRuntime(ShapeKind::kAttention);
    const auto result = Replay(runtime, trace, {.page_tokens = 8, .cap_bytes = kPlenty});
    ASSERT_TRUE(result) << result.error().message;
    const Optimum perfect = PerfectTree(trace);
    EXPECT_EQ(result->requests, trace.requests.size());
    EXPECT_EQ(result->prompt_tokens, trace.input_tokens());
    EXPECT_EQ(result->cached_tokens + result->evaluated_tokens, result->prompt_tokens);
    // A prompt that is known to its end evaluates its last token.
    EXPECT_LE(result->evaluated_tokens, perfect.evaluated_tokens + trace.requests.size());
    EXPECT_GE(result->evaluated_tokens + trace.requests.size(), perfect.evaluated_tokens);
    EXPECT_EQ(result->evaluated_tokens, runtime.counters().tokens_evaluated);
    EXPECT_EQ(result->evicted_bytes, 0U);
  }
}

TEST(ReplayTest, ACapIsHeldAndCostsTokens) {
  const Trace trace = RandomTrace(4);
  for (const EvictionPolicyKind eviction :
       {EvictionPolicyKind::kLru, EvictionPolicyKind::kBenefitPerByte}) {
    std::uint64_t before = 0;
    for (const std::uint64_t tokens : {0U, 200U, 100'000U}) {
      FakeRuntime runtime = NewRuntime(ShapeKind::kAttention);
      const std::uint64_t cap = BytesOfTokens(runtime.info(), tokens);
      const auto result =
          Replay(runtime, trace, {.eviction = eviction, .page_tokens = 8, .cap_bytes = cap});
      ASSERT_TRUE(result) << result.error().message;
      EXPECT_LE(result->peak_bytes, cap);
      if (tokens == 0) {
        EXPECT_EQ(result->evaluated_tokens, trace.input_tokens());
      } else {
        EXPECT_LT(result->evaluated_tokens, before) << tokens;
      }
      before = result->evaluated_tokens;
    }
  }
}

TEST(ReplayTest, EveryShapeIsReplayed) {
  const Trace trace = RandomTrace(6);
  for (const ShapeKind shape :
       {ShapeKind::kMla, ShapeKind::kWindow, ShapeKind::kRecurrent, ShapeKind::kHybrid}) {
    FakeRuntime runtime = NewRuntime(shape);
    const auto result = Replay(runtime, trace, {.page_tokens = 8, .cap_bytes = kPlenty});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_GT(result->hits, 0U) << runtime::fake::ShapeKindName(shape);
    EXPECT_LT(result->evaluated_tokens, trace.input_tokens());
  }
}

TEST(ReplayTest, FewerSnapshotsEvaluateMoreAndTakeLess) {
  const Trace trace = RandomTrace(7);
  const auto replay = [&](ReplayOptions options) {
    FakeRuntime runtime = NewRuntime(ShapeKind::kHybrid);
    options.page_tokens = 8;
    options.cap_bytes = kPlenty;
    const auto result = Replay(runtime, trace, options);
    EXPECT_TRUE(result);
    return result.value_or(ReplayResult{});
  };
  const ReplayResult every_chunk = replay({});
  const ReplayResult junctions = replay({.snapshot_spacing = 0});
  const ReplayResult ends = replay({.snapshot_spacing = 0, .snapshot_junctions = false});
  // Blocks of this trace are chunks: told as parts, the last ones and some before them are kept.
  const ReplayResult parts =
      replay({.snapshot_spacing = 0, .snapshot_junctions = false, .snapshot_parts = true});
  EXPECT_LT(every_chunk.evaluated_tokens, junctions.evaluated_tokens);
  EXPECT_LT(junctions.evaluated_tokens, ends.evaluated_tokens);
  EXPECT_LT(parts.evaluated_tokens, ends.evaluated_tokens);
  EXPECT_GE(every_chunk.snapshots, parts.snapshots);
  EXPECT_GT(parts.snapshots, ends.snapshots);
  EXPECT_GT(every_chunk.physical_bytes, ends.physical_bytes);
}

TEST(ReplayTest, APromptOverTheContextIsAnError) {
  FakeRuntime runtime = NewRuntime(ShapeKind::kAttention);
  const Trace trace = {512, {{0, 300, 0, {1}}}};
  const auto result = Replay(runtime, trace, {.cap_bytes = kPlenty});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(result.error().message.find("300"), std::string::npos) << result.error().message;
}

TEST(ReplayTest, TheReportTellsEachRow) {
  ReplayReport report;
  report.trace = "t.jsonl";
  report.runtime = "attention";
  report.prompt_tokens = 100;
  report.rows.push_back({"lru",
                         50,
                         1400,
                         {.prompt_tokens = 100, .cached_tokens = 25, .evaluated_tokens = 75},
                         {.evaluated_tokens = 60, .cached_tokens = 40}});
  const std::string table = ReplayTable(report);
  EXPECT_NE(table.find("25.0%"), std::string::npos) << table;
  EXPECT_NE(table.find("40.0%"), std::string::npos) << table;
  EXPECT_NE(table.find("1.250"), std::string::npos) << table;
  const std::string json = ReplayJson(report);
  EXPECT_NE(json.find("\"cap_tokens\": 50"), std::string::npos) << json;
}

}  // namespace
}  // namespace skippy::bench
