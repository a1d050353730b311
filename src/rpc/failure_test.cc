// What a link says when its stage stops, restarts, hangs or was never there.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "rpc/address.h"
#include "rpc/dropping_proxy.h"
#include "rpc/rpc_testing.h"

namespace skippy::rpc {
namespace {

using namespace std::chrono_literals;

class Failure : public testing::Test {
 protected:
  Result<pipeline::StageOutput> Step(pipeline::StageLink& link) {
    const std::vector<float> rows = Rows(1, stage_.runtime.input_width());
    return link.Decode(std::vector<runtime::RowsItem>{{kLaneA, 0, rows, false}});
  }
  ServerOptions At(const std::string& address) {
    return {.address = address, .hosts = {&stage_.host}};
  }
  Stage stage_{Layers(kModel, 0, 2)};
};

TEST_F(Failure, ARestartedStageIsFoundAgainAndKnowsNoOldSession) {
  auto serving = std::make_unique<Serving>(At("127.0.0.1:0"));
  const std::string address = serving->address;
  const auto link = MustAttach(address);
  ASSERT_TRUE(link);
  ASSERT_TRUE(Step(*link));

  serving.reset();
  EXPECT_TRUE(IsError(Step(*link), ErrorCode::kUnavailable, {link->address()}));
  // At once, with every call, however long it stays away.
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(IsError(link->Attach(), ErrorCode::kUnavailable, {link->address()}));

  serving = std::make_unique<Serving>(At(address));
  EXPECT_TRUE(link->Attach());
  EXPECT_TRUE(Step(*link));

  // While nobody looked.
  serving.reset();
  serving = std::make_unique<Serving>(At(address));
  EXPECT_TRUE(IsError(Step(*link), ErrorCode::kUnavailable, {link->address()}));
  EXPECT_TRUE(
      IsError(link->Clear(kLaneA), ErrorCode::kUnavailable, {link->address(), "session is over"}));
  EXPECT_TRUE(link->Attach());
  EXPECT_TRUE(Step(*link));
}

TEST_F(Failure, StoppingEndsWhatIsRunning) {
  Serving serving({&stage_.host});
  const auto link = MustAttach(serving.address);
  ASSERT_TRUE(link);
  stage_.gate.Shut();
  std::thread stop([&] {
    stage_.gate.AwaitSomebodyWaiting();
    serving.server.Stop();
  });
  EXPECT_TRUE(IsError(Step(*link), ErrorCode::kUnavailable, {link->address()}));
  stage_.gate.Open();
  stop.join();
  ASSERT_TRUE(serving.server.Start(At(serving.address)));
  EXPECT_TRUE(link->Attach());
}

TEST_F(Failure, AConnectionThatBreaksEndsTheCallAtOnce) {
  Serving serving({&stage_.host});
  DroppingProxy proxy(ParseAddress(serving.address)->port);
  const auto link = MustAttach(proxy.address());
  ASSERT_TRUE(link);
  stage_.gate.Shut();
  std::thread drop([&] {
    stage_.gate.AwaitSomebodyWaiting();
    proxy.Drop();
  });
  EXPECT_TRUE(IsError(Step(*link), ErrorCode::kUnavailable, {link->address()}));
  drop.join();
  stage_.gate.Open();
  EXPECT_TRUE(IsError(link->Attach(), ErrorCode::kUnavailable, {link->address()}));
}

TEST_F(Failure, AnotherCoordinatorEndsTheSession) {
  Serving serving({&stage_.host});
  const auto first = MustAttach(serving.address);
  const auto second = MustAttach(serving.address);
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(
      IsError(Step(*first), ErrorCode::kUnavailable, {first->address(), "another coordinator"}));
  EXPECT_TRUE(Step(*second));
}

TEST_F(Failure, AStageThatCameBackWithOtherLayersIsAway) {
  auto serving = std::make_unique<Serving>(At("127.0.0.1:0"));
  const std::string address = serving->address;
  const auto link = MustAttach(address);
  ASSERT_TRUE(link);
  serving.reset();
  Stage other(Layers(kModel, 1, 3));
  Serving successor(ServerOptions{.address = address, .hosts = {&other.host}});
  // The connection that was is found broken by the first call.
  static_cast<void>(link->Clear(kLaneA));
  EXPECT_TRUE(IsError(link->Clear(kLaneA), ErrorCode::kUnavailable, {"0..2", "1..3"}));
  EXPECT_TRUE(IsError(link->Attach(), ErrorCode::kNotFound, {"0..2", "1..3"}));
}

TEST_F(Failure, NoCallWaitsForEver) {
  Serving serving({&stage_.host});
  const auto link = MustAttach(serving.address, {.call_timeout = 50ms, .timeout = 100ms});
  ASSERT_TRUE(link);
  stage_.gate.Shut();
  EXPECT_TRUE(IsError(Step(*link), ErrorCode::kUnavailable, {link->address(), "Decode", "0.1 s"}));
  EXPECT_TRUE(
      IsError(link->Clear(kLaneA), ErrorCode::kUnavailable, {link->address(), "Clear", "0.05 s"}));
  stage_.gate.Open();
}

TEST_F(Failure, AHangupEndsWhatIsRunningAndWhatComes) {
  Serving serving({&stage_.host});
  const auto hangup = std::make_shared<Hangup>();
  const auto link = MustAttach(serving.address, {.hangup = hangup});
  ASSERT_TRUE(link);
  stage_.gate.Shut();
  std::thread stop([&] {
    stage_.gate.AwaitSomebodyWaiting();
    hangup->Now();
  });
  EXPECT_TRUE(IsError(Step(*link), ErrorCode::kUnavailable, {link->address()}));
  stop.join();
  EXPECT_TRUE(IsError(link->Attach(), ErrorCode::kUnavailable, {link->address()}));
  stage_.gate.Open();
}

TEST_F(Failure, ACallWhoseClientIsGoneBeforeItsTurnIsNotCarriedOut) {
  Stage second(Layers(kModel, 2, 4));
  Serving serving({&stage_.host, &second.host});
  const auto owner = MustAttach(serving.address + "/0..2");
  Links impatient = MustConnect(serving.address, {.call_timeout = 100ms});
  ASSERT_TRUE(owner && impatient.size() == 2);

  stage_.gate.Shut();
  Result<pipeline::StageOutput> running = Err(ErrorCode::kInternal, "not called");
  std::thread step([&] { running = Step(*owner); });
  stage_.gate.AwaitSomebodyWaiting();
  EXPECT_TRUE(IsError(impatient[0]->Attach(), ErrorCode::kUnavailable, {"Attach", "0.1 s"}));
  // The same connection: when this is answered, the server knows that the call before was given up.
  EXPECT_TRUE(impatient[1]->Attach());
  stage_.gate.Open();
  step.join();
  EXPECT_TRUE(running) << running.error().message;
  // Had the late Attach been carried out, this session would be over.
  EXPECT_TRUE(owner->Clear(kLaneA));
}

TEST_F(Failure, WhereNobodyListensIsSaidAtOnce) {
  std::string address;
  { address = Serving({&stage_.host}).address; }
  EXPECT_TRUE(IsError(Connect(address, {}), ErrorCode::kUnavailable, {address, "refused"}));
  EXPECT_TRUE(IsError(Connect("127.0.0.1:0", {}), ErrorCode::kInvalidArgument, {"port 0"}));
  EXPECT_TRUE(IsError(Connect("127.0.0.1", {}), ErrorCode::kInvalidArgument, {"port is missing"}));
  EXPECT_TRUE(IsError(Connect("no-such-host.invalid:7000", {}), ErrorCode::kUnavailable,
                      {"no-such-host.invalid:7000"}));
}

TEST_F(Failure, WhoListensAndSaysNothingIsGivenUp) {
  const SilentListener silent;
  EXPECT_TRUE(IsError(Connect(silent.address(), {.connect_timeout = 100ms}),
                      ErrorCode::kUnavailable, {silent.address()}));
}

}  // namespace
}  // namespace skippy::rpc
