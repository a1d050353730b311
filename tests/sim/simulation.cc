#include "simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "client.h"
#include "engine/engine.h"
#include "random.h"
#include "runtime/fake/fake_runtime.h"
#include "runtime/fake/fake_sampler.h"
#include "skippy/clock.h"
#include "skippy/identity.h"
#include "skippy/prefix_cache.h"
#include "world.h"

namespace skippy::sim {
namespace {

using runtime::fake::Mix;

constexpr int kMaxSteps = 200'000;

std::unique_ptr<runtime::Sampler> MakeSampler(std::uint64_t seed) {
  if (seed == 0) return std::make_unique<runtime::fake::GreedySampler>();
  return std::make_unique<runtime::fake::SeededSampler>(seed);
}

class Simulation {
 public:
  Simulation(const WorldConfig& world, Random& random)
      : world_(world),
        random_(random),
        runtime_(world.fake, world.faults),
        cache_(world.cache, clock_),
        engine_(world.engine, runtime_, cache_, clock_),
        oracle_(world.fake),
        judge_{oracle_, world.engine.exactness == Exactness::kBit || !world.fake.shape_noise,
               world.passes_may_fail} {}

  void RunEvents();
  RunResult Finish();
  bool ok() const { return result_.ok(); }

 private:
  // What a client talks about: everything said so far in one conversation.
  struct Conversation {
    std::vector<Token> text;
    std::string salt;
    std::vector<std::pair<std::uint32_t, float>> adapters;
  };
  struct Pin {
    Namespace ns;
    std::vector<Token> tokens;
  };

  void Event();
  void Say(const Conversation& conversation, bool may_leave = true);
  Conversation NewConversation();
  Conversation& AnyConversation();
  void Append();
  void Rewind();
  void Branch();
  void FanOut();
  void DisconnectAndRetry();
  void WorkAhead();
  void Leave();
  void Reset();
  void PinSomething();
  void Unpin();
  Namespace NamespaceOf(const Conversation& conversation) const;

  std::vector<Token> Words(std::uint32_t most);
  void Steps(std::uint32_t count);
  void Drain();
  void Judgement();
  void Check();
  void Fail(std::string what);

  const WorldConfig& world_;
  Random& random_;
  ManualClock clock_;
  runtime::fake::FakeRuntime runtime_;
  PrefixCache cache_;
  engine::Engine engine_;
  ColdOracle oracle_;
  const Judge judge_;
  std::vector<Conversation> conversations_;
  std::vector<std::shared_ptr<Call>> calls_;  // not judged yet
  std::vector<std::shared_ptr<Call>> ahead_;  // idle work
  std::vector<std::pair<std::size_t, std::shared_ptr<Call>>>
      answers_;  // by conversation, to append
  std::vector<Pin> pins_;
  RunResult result_;
};

void Simulation::Fail(std::string what) {
  if (result_.failure.empty()) result_.failure = std::move(what);
}

std::vector<Token> Simulation::Words(std::uint32_t most) {
  std::vector<Token> words(random_.Between(1, most));
  for (Token& word : words) word = static_cast<Token>(random_.Below(world_.alphabet));
  return words;
}

Simulation::Conversation Simulation::NewConversation() {
  Conversation conversation;
  conversation.text = Words(world_.fake.context / 2);
  if (random_.Chance(15)) conversation.salt = "tenant";
  if (random_.Chance(15)) conversation.adapters = {{random_.Between(0, 1), 0.5F}};
  return conversation;
}

Simulation::Conversation& Simulation::AnyConversation() {
  if (conversations_.empty() || random_.Chance(10)) conversations_.push_back(NewConversation());
  if (conversations_.size() > 6) conversations_.erase(conversations_.begin());
  return conversations_[random_.Below(conversations_.size())];
}

void Simulation::Say(const Conversation& conversation, bool may_leave) {
  ColdRequest request;
  request.prompt = conversation.text;
  request.adapters = conversation.adapters;
  request.sampler_seed = random_.Chance(50) ? 0 : random_.Between(1, 3);
  request.max_tokens = random_.OneOf<std::uint32_t>({0, 1, 2, 7, 30});
  auto call = std::make_shared<Call>(request);
  call->salt = conversation.salt;
  if (random_.Chance(20)) call->stop_after = random_.Between(1, 5);
  engine::GenerateRequest generate;
  generate.prompt = request.prompt;
  for (Pos p = random_.Between(1, 40); p < request.prompt.size(); p += random_.Between(5, 60)) {
    generate.message_starts.push_back(p);
  }
  generate.tenant_salt = conversation.salt;
  generate.adapters = request.adapters;
  generate.use_cache = !random_.Chance(5);
  generate.allow_decoded_result = !random_.Chance(10);
  generate.max_tokens = request.max_tokens;
  generate.sampler = MakeSampler(request.sampler_seed);
  generate.sink = call;
  const auto id = engine_.Submit(std::move(generate));
  if (!id) {
    const bool expected = id.error().code == ErrorCode::kResourceExhausted ||
                          (id.error().code == ErrorCode::kInvalidArgument &&
                           request.prompt.size() > world_.fake.context);
    if (!expected) Fail("refused: " + id.error().message);
    result_.trace = Mix(result_.trace, 0x5265);
    return;
  }
  call->id = *id;
  calls_.push_back(call);
  ++result_.requests;
  if (may_leave && random_.Chance(10)) call->gone = true;
}

void Simulation::Append() {
  Conversation& conversation = AnyConversation();
  Say(conversation, false);
  if (calls_.empty()) return;
  const std::shared_ptr<Call> call = calls_.back();
  Drain();
  const std::vector<Token> more = Words(world_.fake.context / 6);
  conversation.text.insert(conversation.text.end(), call->tokens.begin(), call->tokens.end());
  conversation.text.insert(conversation.text.end(), more.begin(), more.end());
  if (conversation.text.size() >= world_.fake.context) {
    conversation.text.resize(random_.Between(1, world_.fake.context));
  }
}

void Simulation::Rewind() {
  Conversation& conversation = AnyConversation();
  const std::uint32_t length = static_cast<std::uint32_t>(conversation.text.size());
  const std::uint32_t cut =
      random_.Chance(50) ? random_.Between(1, std::min(5U, length)) : random_.Between(1, length);
  conversation.text.resize(std::max(1U, length - cut));
  Say(conversation);
}

void Simulation::Branch() {
  Conversation branch = AnyConversation();
  branch.text.resize(random_.Between(1, static_cast<std::uint32_t>(branch.text.size())));
  const std::vector<Token> tail = Words(world_.fake.context / 4);
  branch.text.insert(branch.text.end(), tail.begin(), tail.end());
  if (branch.text.size() > world_.fake.context) branch.text.resize(world_.fake.context);
  conversations_.push_back(branch);
  Say(branch);
}

void Simulation::FanOut() {
  const Conversation base = AnyConversation();
  const std::uint32_t width = random_.Between(2, 6);
  for (std::uint32_t i = 0; i < width; ++i) {
    Conversation question = base;
    if (!random_.Chance(25)) {
      const std::vector<Token> tail = Words(world_.fake.context / 6);
      question.text.insert(question.text.end(), tail.begin(), tail.end());
    }
    Say(question);
    Steps(random_.Chance(70) ? 0 : random_.Between(0, 4));
  }
}

void Simulation::DisconnectAndRetry() {
  const Conversation conversation = AnyConversation();
  Say(conversation, false);
  if (calls_.empty()) return;
  const std::shared_ptr<Call> call = calls_.back();
  Steps(random_.Between(0, 8));
  call->gone = true;
  if (random_.Chance(50)) engine_.Cancel(call->id);
  Steps(random_.Between(0, 2));
  Say(conversation, false);
}

// Evaluates a turn that may come; never judged by its tokens, it has none.
void Simulation::WorkAhead() {
  Conversation next = AnyConversation();
  const std::vector<Token> more = Words(world_.fake.context / 6);
  next.text.insert(next.text.end(), more.begin(), more.end());
  ColdRequest request;
  request.prompt = next.text;
  auto call = std::make_shared<Call>(request);
  engine::GenerateRequest generate;
  generate.prompt = next.text;
  generate.tenant_salt = next.salt;
  generate.adapters = next.adapters;
  generate.idle = true;
  generate.sink = call;
  const auto id = engine_.Submit(std::move(generate));
  if (!id) return;  // too long, or enough of it waits already
  call->id = *id;
  ahead_.push_back(call);
  if (random_.Chance(10)) call->gone = true;
}

void Simulation::Leave() {
  if (calls_.empty()) return;
  const std::shared_ptr<Call>& call = calls_[random_.Below(calls_.size())];
  call->gone = true;
  engine_.Cancel(call->id);
}

Namespace Simulation::NamespaceOf(const Conversation& conversation) const {
  Identity identity = runtime_.info().identity;
  if (auto adapters = runtime_.ResolveAdapters(conversation.adapters))
    identity.adapters = *adapters;
  return MakeNamespace(identity, conversation.salt);
}

void Simulation::Reset() {
  const Namespace ns = NamespaceOf(AnyConversation());
  const bool everything = random_.Chance(50);
  engine_.Call([&](PrefixCache& cache, runtime::Runtime&) {
    if (everything)
      cache.Clear();
    else
      cache.ClearNamespace(ns);
  });
  if (random_.Chance(50)) engine_.ForgetIdleLanes();
}

void Simulation::PinSomething() {
  const Conversation& conversation = AnyConversation();
  std::vector<Token> prefix = conversation.text;
  prefix.resize(random_.Between(1, static_cast<std::uint32_t>(prefix.size())));
  const Namespace ns = NamespaceOf(conversation);
  engine_.Call([&](PrefixCache& cache, runtime::Runtime&) {
    if (cache.PinPrefix(ns, prefix)) pins_.push_back({ns, prefix});
  });
}

void Simulation::Unpin() {
  engine_.Call([&](PrefixCache& cache, runtime::Runtime&) {
    // A pin dies with a Clear; unpinning it then says NotFound, which is as good.
    for (const Pin& pin : pins_)
      static_cast<void>(cache.UnpinPrefix(pin.ns, pin.tokens).has_value());
  });
  pins_.clear();
}

void Simulation::Event() {
  switch (random_.Below(17)) {
    case 0:
    case 1:
    case 2: Append(); break;
    case 3:
    case 4: Say(AnyConversation()); break;  // an exact repeat, or the first time
    case 5:
    case 6: Rewind(); break;
    case 7:
    case 8: Branch(); break;
    case 9:
    case 10: FanOut(); break;
    case 11: DisconnectAndRetry(); break;
    case 12: Leave(); break;
    case 13:
      if (random_.Chance(30)) Reset();
      break;
    case 14:
      if (random_.Chance(40))
        PinSomething();
      else
        Unpin();
      break;
    case 15: WorkAhead(); break;
    default: Drain(); break;
  }
  if (random_.Chance(60)) Steps(random_.Between(0, 12));
}

void Simulation::RunEvents() {
  for (std::uint32_t i = 0; i < world_.events && ok(); ++i) {
    Event();
    Judgement();
    Check();
  }
}

void Simulation::Steps(std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    clock_.Advance(1000);
    if (!engine_.Step()) return;
  }
}

void Simulation::Drain() {
  for (int i = 0; i < kMaxSteps; ++i) {
    clock_.Advance(1000);
    if (!engine_.Step()) return;
  }
  Fail("the engine does not come to rest");
}

// Judges the calls that have ended.
void Simulation::Judgement() {
  for (const std::shared_ptr<Call>& call : calls_) {
    if (!call->finished) continue;
    if (std::string wrong = WrongWith(*call, judge_); !wrong.empty()) Fail(std::move(wrong));
    result_.trace = Mix(result_.trace, TraceOf(*call));
    result_.cached_tokens += call->report.prompt.cached_tokens;
    result_.evaluated_tokens += call->report.prompt.evaluated_tokens;
  }
  std::erase_if(calls_, [](const std::shared_ptr<Call>& call) { return call->finished; });
}

// The invariants that hold after each event, busy or not.
void Simulation::Check() {
  engine_.Call([&](PrefixCache& cache, runtime::Runtime& runtime) {
    if (const Status sound = cache.SelfCheck(); !sound)
      Fail("self-check: " + sound.error().message);
    const CacheStats stats = cache.Stats();
    if (!stats.latched.empty()) Fail("latched: " + stats.latched);
    if (stats.physical_bytes > world_.cache.max_bytes) {
      Fail(fmt::format("{} bytes, the cap is {}", stats.physical_bytes, world_.cache.max_bytes));
    }
    if (stats.entries > world_.cache.max_entries) Fail("over the cap of entries");
    for (const engine::LaneStatus& lane : engine_.Lanes()) {
      if (lane.resident_tokens != runtime.End(lane.lane)) {
        Fail(fmt::format("lane {} thinks it holds {} tokens, the runtime holds {}", lane.lane.value,
                         lane.resident_tokens, runtime.End(lane.lane)));
      }
    }
    result_.trace = Mix(result_.trace, Mix(stats.physical_bytes, stats.entries));
    result_.trace = Mix(result_.trace, Mix(stats.evicted_tokens, stats.hits));
  });
}

RunResult Simulation::Finish() {
  Drain();
  Judgement();
  Check();
  Unpin();
  if (!calls_.empty()) Fail("requests are left over");
  for (const std::shared_ptr<Call>& call : ahead_)
    if (!call->finished) Fail("idle work is left over");
  const engine::EngineStats stats = engine_.Stats();
  if (stats.running + stats.queued > 0) Fail("the engine rests and is not idle");
  for (const engine::LaneStatus& lane : engine_.Lanes()) {
    if (lane.busy) Fail("a lane is left busy");
  }
  if (cache_.Stats().pinned_blocks > 0) Fail("pins are left over");
  if (stats.evaluated_tokens != result_.evaluated_tokens) {
    Fail("the engine's counters are not the sums of the reports");
  }
  if (!world_.passes_may_fail && stats.failed > 0) Fail("a request failed without a cause");
  result_.faults = runtime_.counters().faults;
  result_.engine = stats;
  result_.cache = cache_.Stats();
  result_.trace = Mix(result_.trace, runtime_.counters().tokens_evaluated);
  return result_;
}

}  // namespace

RunResult RunSimulation(std::uint64_t seed) {
  Random random(seed);
  const WorldConfig world = RandomWorld(random);
  RunResult result;
  if (const std::vector<std::string> problems = world.cache.Validate(); !problems.empty()) {
    result.failure = "bad options: " + problems.front();
  } else {
    Simulation simulation(world, random);
    simulation.RunEvents();
    result = simulation.Finish();
  }
  result.world = world.Describe();
  return result;
}

}  // namespace skippy::sim
