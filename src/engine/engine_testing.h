// Test harness of the engine: a fake runtime, a cache and an engine that the test steps by hand; a
// sink that remembers everything; and the cold run that every answer is compared with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "runtime/fake/fake_runtime.h"
#include "runtime/fake/fake_sampler.h"
#include "skippy/clock.h"
#include "skippy/prefix_cache.h"

namespace skippy::engine {

using runtime::fake::FakeOptions;
using runtime::fake::FakeRuntime;
using runtime::fake::FaultPlan;
using runtime::fake::ShapeKind;

class TestSink final : public GenerationSink {
 public:
  void OnPromptProgress(const PromptReport& so_far, std::uint32_t processed) override {
    EXPECT_EQ(so_far.cached_tokens + so_far.evaluated_tokens, processed);
    progress.push_back(processed);
  }
  Next OnToken(Token token, std::span<const float> token_logits) override {
    EXPECT_FALSE(finished);
    tokens.push_back(token);
    logits.emplace_back(token_logits.begin(), token_logits.end());
    return tokens.size() >= stop_after ? Next::kStop : Next::kContinue;
  }
  void OnFinish(const GenerationReport& the_report) override {
    EXPECT_FALSE(finished) << "OnFinish came twice";
    finished = true;
    report = the_report;
    if (when_finished) when_finished();
  }
  bool Cancelled() const override { return gone; }

  std::size_t stop_after = SIZE_MAX;
  bool gone = false;
  std::function<void()> when_finished;
  std::vector<std::uint32_t> progress;
  std::vector<Token> tokens;
  std::vector<std::vector<float>> logits;
  bool finished = false;
  GenerationReport report;
};

// What a request asks for, in the terms of tests.
struct Ask {
  std::vector<Token> prompt;
  std::uint32_t max_tokens = 4;
  std::uint64_t sampler_seed = 0;  // 0: greedy
  std::vector<Pos> message_starts = {};
  std::string salt = {};
  std::vector<std::pair<std::uint32_t, float>> adapters = {};
  bool use_cache = true;
  bool allow_decoded_result = true;
  bool idle = false;
};

inline std::unique_ptr<runtime::Sampler> MakeTestSampler(std::uint64_t seed) {
  if (seed == 0) return std::make_unique<runtime::fake::GreedySampler>();
  return std::make_unique<runtime::fake::SeededSampler>(seed);
}

inline std::vector<Token> Text(std::size_t count, std::uint64_t seed) {
  std::vector<Token> tokens(count);
  for (std::size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<Token>(runtime::fake::Mix(seed, i) % 64);
  }
  return tokens;
}

inline std::vector<Token> operator+(std::vector<Token> a, const std::vector<Token>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct ColdAnswer {
  std::vector<Token> tokens;
  std::vector<std::vector<float>> logits;
};

// The same request on a runtime of its own, without engine, cache or faults: chunks on the grid,
// then token by token.
inline ColdAnswer RunCold(const FakeOptions& options, const Ask& ask) {
  FakeOptions alone = options;
  alone.lanes = 1;
  FakeRuntime runtime(alone);
  EXPECT_TRUE(runtime.UseAdapters(ask.adapters));
  const std::unique_ptr<runtime::Sampler> sampler = MakeTestSampler(ask.sampler_seed);
  std::vector<Token> text = ask.prompt;
  ColdAnswer answer;
  while (answer.tokens.size() < ask.max_tokens && text.size() <= options.context) {
    while (runtime.End(SeqId{0}) < text.size()) {
      const Pos begin = runtime.End(SeqId{0});
      const std::size_t end =
          std::min<std::size_t>(text.size(), (begin / options.chunk + 1) * options.chunk);
      const runtime::DecodeItem item{SeqId{0}, begin, TokenSpan(text).subspan(begin, end - begin),
                                     true};
      EXPECT_TRUE(runtime.Decode({&item, 1}));
    }
    const std::span<const float> logits = runtime.Logits(0);
    const Token token = sampler->Sample(logits).value();
    sampler->Accept(token);
    answer.tokens.push_back(token);
    answer.logits.emplace_back(logits.begin(), logits.end());
    text.push_back(token);
  }
  return answer;
}

struct WorldOptions {
  FakeOptions fake;
  EngineOptions engine;
  std::uint32_t page_tokens = 8;
  std::uint64_t max_bytes = std::uint64_t{1} << 24;
  FaultPlan faults;
};

class World {
 public:
  explicit World(const WorldOptions& world)
      : options(world),
        runtime(world.fake, world.faults),
        cache(MakeCacheOptions(world, runtime.info()), clock),
        engine(world.engine, runtime, cache, clock) {}

  static CacheOptions MakeCacheOptions(const WorldOptions& world,
                                       const runtime::RuntimeInfo& info) {
    CacheOptions cache_options;
    cache_options.shape = info.shape;
    cache_options.policy = info.policy;
    cache_options.page_tokens = world.page_tokens;
    cache_options.max_bytes = world.max_bytes;
    cache_options.max_logits_bytes = world.max_bytes / 2;
    return cache_options;
  }

  GenerateRequest Request(const Ask& ask, std::shared_ptr<TestSink> sink) const {
    GenerateRequest request;
    request.prompt = ask.prompt;
    request.message_starts = ask.message_starts;
    request.tenant_salt = ask.salt;
    request.adapters = ask.adapters;
    request.use_cache = ask.use_cache;
    request.allow_decoded_result = ask.allow_decoded_result;
    request.max_tokens = ask.max_tokens;
    request.idle = ask.idle;
    request.sampler = MakeTestSampler(ask.sampler_seed);
    request.sink = std::move(sink);
    return request;
  }

  std::shared_ptr<TestSink> Submit(const Ask& ask) {
    auto sink = std::make_shared<TestSink>();
    const Result<RequestId> id = engine.Submit(Request(ask, sink));
    EXPECT_TRUE(id) << (id ? "" : id.error().message);
    if (id) last_id = *id;
    return sink;
  }

  // Steps until nothing is left to do. A bound instead of a timeout: a hang is a failure.
  void Drain() {
    for (int i = 0; i < 100'000; ++i) {
      if (!engine.Step()) return;
    }
    ADD_FAILURE() << "the engine does not come to rest";
  }

  // One request from start to end; its answer must be the cold run's.
  std::shared_ptr<TestSink> Run(const Ask& ask) {
    auto sink = Submit(ask);
    Drain();
    ExpectColdAnswer(ask, *sink);
    return sink;
  }

  void ExpectColdAnswer(const Ask& ask, const TestSink& sink) const {
    const ColdAnswer cold = RunCold(options.fake, ask);
    EXPECT_TRUE(sink.finished);
    EXPECT_EQ(sink.tokens, cold.tokens);
    if (options.engine.exactness == Exactness::kBit || !options.fake.shape_noise) {
      EXPECT_EQ(sink.logits, cold.logits);
    }
    EXPECT_EQ(sink.report.prompt.prompt_tokens, ask.prompt.size());
    EXPECT_EQ(sink.report.prompt.cached_tokens + sink.report.prompt.evaluated_tokens,
              ask.prompt.size());
    EXPECT_EQ(sink.report.prompt.cached_hot + sink.report.prompt.cached_warm,
              sink.report.prompt.cached_tokens);
    EXPECT_EQ(sink.report.generated_tokens, sink.tokens.size());
  }

  void ExpectIdleAndSound() {
    EXPECT_TRUE(cache.SelfCheck());
    EXPECT_EQ(cache.Stats().pinned_blocks, 0U);
    EXPECT_LE(cache.Stats().physical_bytes, cache.options().max_bytes);
    for (const LaneStatus& lane : engine.Lanes()) {
      EXPECT_FALSE(lane.busy);
      EXPECT_EQ(lane.resident_tokens, runtime.End(lane.lane));
    }
  }

  const WorldOptions options;
  ManualClock clock;
  FakeRuntime runtime;
  PrefixCache cache;
  Engine engine;
  RequestId last_id{};
};

inline std::vector<ShapeKind> AllShapes() {
  std::vector<ShapeKind> shapes;
  for (int i = 0; i < runtime::fake::kShapeKindCount; ++i)
    shapes.push_back(static_cast<ShapeKind>(i));
  return shapes;
}

inline std::string ShapeTestName(const testing::TestParamInfo<ShapeKind>& shape) {
  return std::string(runtime::fake::ShapeKindName(shape.param));
}

}  // namespace skippy::engine
