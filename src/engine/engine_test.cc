// The engine's outside: what is refused, the queue, the thread, the counters.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "engine/engine_testing.h"

namespace skippy::engine {
namespace {

WorldOptions SmallWorld() {
  WorldOptions world;
  world.fake.lanes = 2;
  world.fake.context = 64;
  world.engine.max_queue = 3;
  return world;
}

ErrorCode CodeOf(const Result<RequestId>& result) {
  EXPECT_FALSE(result);
  return result ? ErrorCode::kInternal : result.error().code;
}

TEST(EngineSubmit, RefusesWhatCannotRun) {
  World world(SmallWorld());
  const auto submit = [&](const Ask& ask) {
    return world.engine.Submit(world.Request(ask, std::make_shared<TestSink>()));
  };
  EXPECT_EQ(CodeOf(submit({.prompt = {}})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(submit({.prompt = {1, 64}})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(submit({.prompt = {1, -1}})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(submit({.prompt = {1}, .adapters = {{7, 1.0F}}})), ErrorCode::kInvalidArgument);
  GenerateRequest no_sampler = world.Request({.prompt = {1}}, std::make_shared<TestSink>());
  no_sampler.sampler.reset();
  EXPECT_EQ(CodeOf(world.engine.Submit(std::move(no_sampler))), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(world.engine.Submit(world.Request({.prompt = {1}}, nullptr))),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(world.engine.Stats().rejected, 6U);
  EXPECT_EQ(world.engine.Stats().requests, 0U);
  EXPECT_FALSE(world.engine.Step());
}

TEST(EngineSubmit, NamesBothNumbersWhenThePromptIsOverTheContext) {
  World world(SmallWorld());
  const auto refused =
      world.engine.Submit(world.Request({.prompt = Text(65, 1)}, std::make_shared<TestSink>()));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("65"), std::string::npos);
  EXPECT_NE(refused.error().message.find("64"), std::string::npos);
}

TEST(EngineSubmit, AFullQueueRefusesUntilThereIsRoom) {
  World world(SmallWorld());
  const Ask ask{.prompt = Text(20, 1)};
  for (int i = 0; i < 3; ++i) world.Submit(ask);
  const auto submit = [&] {
    return world.engine.Submit(world.Request(ask, std::make_shared<TestSink>()));
  };
  EXPECT_EQ(CodeOf(submit()), ErrorCode::kResourceExhausted);
  EXPECT_EQ(world.engine.Stats().queued, 3U);
  world.Drain();
  EXPECT_TRUE(submit());
}

TEST(EngineQueue, ACancelledQueuedRequestCostsNothing) {
  WorldOptions options = SmallWorld();
  options.fake.lanes = 1;
  options.engine.max_queue = 8;
  World world(options);
  const Ask first{.prompt = Text(20, 1), .max_tokens = 5};
  const auto running = world.Submit(first);
  world.engine.Step();
  std::vector<std::shared_ptr<TestSink>> waiting;
  for (std::uint64_t i = 0; i < 4; ++i)
    waiting.push_back(world.Submit({.prompt = Text(20, 10 + i)}));
  world.engine.Cancel(world.last_id);
  waiting[0]->gone = true;
  waiting[1]->gone = true;
  world.engine.Step();
  EXPECT_TRUE(waiting[0]->finished && waiting[1]->finished && waiting[3]->finished);
  EXPECT_FALSE(waiting[2]->finished);
  EXPECT_EQ(waiting[3]->report.finish, FinishReason::kCancelled);
  EXPECT_EQ(waiting[3]->report.prompt.prompt_tokens, 20U);
  world.Drain();
  world.ExpectColdAnswer(first, *running);
  EXPECT_EQ(world.engine.Stats().evaluated_tokens, 40U);
  EXPECT_EQ(world.engine.Stats().cancelled, 3U);
}

TEST(EngineQueue, RequestsAreAdmittedInOrderOfArrival) {
  WorldOptions options = SmallWorld();
  options.fake.lanes = 1;
  World world(options);
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) {
    world
        .Submit(
            {.prompt = Text(30 - 5 * static_cast<std::size_t>(i), 10U + static_cast<unsigned>(i))})
        ->when_finished = [&order, i] { order.push_back(i); };
  }
  world.Drain();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST(EngineQueue, CancellingTwiceOrAfterTheEndDoesNothing) {
  World world(SmallWorld());
  const auto sink = world.Submit({.prompt = Text(20, 1)});
  world.Drain();
  world.engine.Cancel(world.last_id);
  world.engine.Cancel(world.last_id);
  world.engine.Cancel(RequestId{999});
  world.Drain();
  EXPECT_EQ(sink->report.finish, FinishReason::kLength);
}

TEST(EngineReports, TimesComeFromTheClock) {
  World world(SmallWorld());
  const auto sink = world.Submit({.prompt = Text(20, 1), .max_tokens = 1});
  world.clock.Advance(3000);
  world.engine.Step();
  world.clock.Advance(5000);
  world.Drain();
  EXPECT_DOUBLE_EQ(sink->report.prompt.queue_ms, 3.0);
  EXPECT_DOUBLE_EQ(sink->report.prompt.prompt_ms, 5.0);
}

TEST(EngineReports, CountersAreTheSumsOfTheReports) {
  WorldOptions options = SmallWorld();
  options.fake.context = 256;
  options.engine.max_queue = 64;
  World world(options);
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (std::uint64_t i = 0; i < 12; ++i) {
    sinks.push_back(world.Submit({.prompt = Text(30, i % 3) + Text(i, 50 + i), .max_tokens = 5}));
    if (i % 4 == 3) world.Drain();
  }
  world.Drain();
  std::uint64_t evaluated = 0;
  std::uint64_t cached = 0;
  for (const auto& sink : sinks) {
    evaluated += sink->report.prompt.evaluated_tokens;
    cached += sink->report.prompt.cached_tokens;
  }
  const EngineStats stats = world.engine.Stats();
  EXPECT_EQ(stats.evaluated_tokens, evaluated);
  EXPECT_EQ(stats.cached_hot_tokens + stats.cached_warm_tokens + stats.cached_decoded_tokens,
            cached);
  EXPECT_EQ(stats.prompt_tokens, evaluated + cached);
  EXPECT_EQ(stats.generated_tokens, 12U * 5U);
  EXPECT_EQ(stats.finished, 12U);
}

TEST(EngineThread, ServesRequestsFromManyThreads) {
  WorldOptions options = SmallWorld();
  options.fake.context = 256;
  options.fake.lanes = 3;
  options.engine.max_queue = 64;
  World world(options);
  world.engine.Start();
  const auto client = [&](std::uint64_t number) {
    for (std::uint64_t i = 0; i < 6; ++i) {
      const Ask ask{.prompt = Text(40, i % 2) + Text(1 + i, 100 * number + i), .max_tokens = 6};
      auto sink = std::make_shared<TestSink>();
      std::promise<void> done;
      sink->when_finished = [&done] { done.set_value(); };
      ASSERT_TRUE(world.engine.Submit(world.Request(ask, sink)));
      done.get_future().wait();
      world.ExpectColdAnswer(ask, *sink);
    }
  };
  std::vector<std::thread> clients;
  for (std::uint64_t i = 1; i <= 4; ++i) clients.emplace_back(client, i);
  for (std::thread& thread : clients) thread.join();
  EXPECT_EQ(world.engine.Stats().finished, 24U);
  world.engine.Stop();
  world.ExpectIdleAndSound();
}

TEST(EngineThread, CallsRunBetweenStepsWithAndWithoutAThread) {
  World world(SmallWorld());
  std::thread::id caller;
  const auto where = [&](PrefixCache&, runtime::Runtime&) { caller = std::this_thread::get_id(); };
  world.engine.Call(where);
  EXPECT_EQ(caller, std::this_thread::get_id());
  world.engine.Start();
  world.engine.Call(where);
  EXPECT_NE(caller, std::this_thread::get_id());
  world.engine.Stop();
  world.engine.Call(where);
  EXPECT_EQ(caller, std::this_thread::get_id());
}

// Holds the engine thread in its first step until it is let go.
class GateSampler final : public runtime::Sampler {
 public:
  Result<Token> Sample(std::span<const float>) override {
    if (!entered_) {
      entered_ = true;
      entered.set_value();
      let_go.get_future().wait();
    }
    return Token{1};
  }
  void Accept(Token) override {}
  std::promise<void> entered;
  std::promise<void> let_go;

 private:
  bool entered_ = false;
};

TEST(EngineThread, StoppingCancelsWhatRunsAndWhatWaits) {
  WorldOptions options = SmallWorld();
  options.fake.lanes = 1;
  options.engine.max_queue = 1'000'000;
  World world(options);
  world.engine.Start();
  auto talking = std::make_shared<TestSink>();
  GenerateRequest request = world.Request({.prompt = Text(20, 1), .max_tokens = 40}, talking);
  auto gate = std::make_unique<GateSampler>();
  GateSampler& held = *gate;
  request.sampler = std::move(gate);
  ASSERT_TRUE(world.engine.Submit(std::move(request)));
  held.entered.get_future().wait();
  const auto waiting = world.Submit({.prompt = Text(20, 2)});
  std::thread stopper([&] { world.engine.Stop(); });
  const auto submit = [&] {
    return world.engine.Submit(world.Request({.prompt = {1}}, std::make_shared<TestSink>()));
  };
  Result<RequestId> last = submit();
  // Until the engine says that it is stopping; the queue may be full before.
  while (last || last.error().code == ErrorCode::kResourceExhausted) last = submit();
  EXPECT_EQ(last.error().code, ErrorCode::kUnavailable);
  held.let_go.set_value();
  stopper.join();
  EXPECT_EQ(talking->report.finish, FinishReason::kCancelled);
  EXPECT_EQ(waiting->report.finish, FinishReason::kCancelled);
  world.engine.Stop();
}

TEST(EngineThread, StoppingAnEngineThatNeverStartedCancelsItsQueue) {
  World world(SmallWorld());
  const auto sink = world.Submit({.prompt = Text(20, 1)});
  world.engine.Stop();
  EXPECT_EQ(sink->report.finish, FinishReason::kCancelled);
  EXPECT_EQ(world.runtime.counters().decode_calls, 0U);
}

TEST(EngineLanes, ShowWhoRunsWhere) {
  World world(SmallWorld());
  world.Submit({.prompt = Text(40, 1), .max_tokens = 3});
  world.engine.Step();
  const std::vector<LaneStatus> lanes = world.engine.Lanes();
  ASSERT_EQ(lanes.size(), 2U);
  EXPECT_TRUE(lanes[0].busy);
  EXPECT_EQ(lanes[0].request, world.last_id);
  EXPECT_EQ(lanes[0].prompt_tokens, 40U);
  EXPECT_EQ(lanes[0].prompt_processed, 16U);
  EXPECT_FALSE(lanes[1].busy);
  EXPECT_EQ(world.engine.Stats().running, 1U);
  world.Drain();
  EXPECT_EQ(world.engine.Lanes()[0].resident_tokens, 42U);
}

}  // namespace
}  // namespace skippy::engine
