// A whole server in small: engine and cache upon stages that fail, lie, lose what they keep and are
// restarted; coordinators that come and go; models that are cut another way meanwhile. Every token
// is compared with a cold run of the whole model.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>

#include "engine/engine.h"
#include "pipeline/pipeline_testing.h"
#include "runtime/fake/fake_sampler.h"
#include "skippy/clock.h"
#include "skippy/prefix_cache.h"

namespace skippy::pipeline {
namespace {

using engine::FinishReason;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_(Mix(seed, 0x706970)) {}
  std::uint64_t Next() { return Mix(seed_, ++thrown_); }
  std::uint64_t Below(std::uint64_t bound) { return Next() % bound; }
  std::uint32_t Between(std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(Below(high - low + 1));
  }
  bool Chance(std::uint32_t percent) { return Below(100) < percent; }
  template <class T>
  T OneOf(std::initializer_list<T> choices) {
    return *(choices.begin() + static_cast<std::ptrdiff_t>(Below(choices.size())));
  }

 private:
  const std::uint64_t seed_;
  std::uint64_t thrown_ = 0;
};

struct World {
  FakeStageOptions options;
  PipelineOptions pipeline;
  std::uint32_t page = 16;
  std::uint64_t cache_bytes = 0;
  std::uint64_t store_bytes = 0;
  // Each coordinator finds the model cut another way; stages have one store or ask their peers.
  bool recut = false;
  bool peers = false;
  bool tenants = false;
  engine::EngineOptions engine;
  std::uint32_t fault_permille = 0;
  std::vector<LinkFault> faults;
  FaultPlan runtime_faults;
  // A request may fail. Of a restore that fails twice too: that of a later stage is part of a pass.
  bool faulty() const {
    return fault_permille > 0 || runtime_faults.fail_decode.permille > 0 ||
           runtime_faults.nan_decode.permille > 0 || runtime_faults.fail_import.permille > 0 ||
           runtime_faults.lie_import.permille > 0;
  }
  std::string Describe() const;
};

World RandomWorld(Dice& dice) {
  World world;
  FakeStageOptions& options = world.options;
  const std::uint32_t kinds = dice.Between(1, 3);
  std::vector<ShapeKind> palette;
  for (std::uint32_t i = 0; i < kinds; ++i)
    palette.push_back(static_cast<ShapeKind>(dice.Below(runtime::fake::kShapeKindCount)));
  for (std::uint32_t i = dice.Between(2, 6); i > 0; --i)
    options.model.push_back(palette[dice.Below(palette.size())]);
  options.lanes = dice.Between(1, 3);
  options.chunk = dice.OneOf<std::uint32_t>({4, 8, 16});
  options.context = dice.OneOf<std::uint32_t>({64, 96, 160});
  options.window_tokens = dice.OneOf<std::uint32_t>({3, 12, 24});
  options.weights_seed = dice.Next();
  options.tensors_first = dice.Chance(50);
  world.engine.exactness = dice.Chance(30) ? Exactness::kBit : Exactness::kToken;
  options.shape_noise = world.engine.exactness == Exactness::kBit || dice.Chance(30);
  world.engine.hot_lanes = dice.Chance(70);
  world.engine.share_prefill = dice.Chance(80);
  world.engine.snapshot_spacing = dice.OneOf<std::uint32_t>({0, 1, 16});
  world.page = dice.OneOf<std::uint32_t>({1, 4, 8, 16, 64});
  world.cache_bytes =
      dice.Chance(25) ? std::uint64_t{dice.Between(1000, 20'000)} : std::uint64_t{1} << 26;
  world.store_bytes =
      dice.Chance(30) ? std::uint64_t{dice.Between(200, 20'000)} : std::uint64_t{1} << 26;
  world.recut = dice.Chance(50);
  world.peers = world.recut && dice.Chance(60);
  world.tenants = dice.Chance(30);
  world.pipeline.activation_bytes = dice.OneOf<std::uint64_t>({0, 0, 5000, 1 << 24});
  if (dice.Chance(60)) {
    world.fault_permille = dice.Between(3, 40);
    for (int fault = 1; fault < kLinkFaults; ++fault)
      if (dice.Chance(50)) world.faults.push_back(static_cast<LinkFault>(fault));
    if (world.faults.empty()) world.faults = {LinkFault::kRestart};
  }
  if (dice.Chance(30)) {
    world.runtime_faults.seed = dice.Next();
    world.runtime_faults.fail_decode.permille = dice.OneOf<std::uint32_t>({0, 0, 20});
    world.runtime_faults.nan_decode.permille = dice.OneOf<std::uint32_t>({0, 0, 10});
    world.runtime_faults.fail_import.permille = dice.OneOf<std::uint32_t>({0, 100});
    world.runtime_faults.lie_import.permille = dice.OneOf<std::uint32_t>({0, 100});
    world.runtime_faults.fail_export.permille = dice.OneOf<std::uint32_t>({0, 50});
  }
  return world;
}

std::string World::Describe() const {
  std::string model;
  for (const ShapeKind kind : options.model)
    model += fmt::format("{} ", runtime::fake::ShapeKindName(kind));
  std::string kinds;
  for (const LinkFault fault : faults) kinds += fmt::format("{} ", static_cast<int>(fault));
  return fmt::format(
      "model {}lanes {} chunk {} context {} window {} noise {} exactness {} hot {} share {} "
      "spacing "
      "{} page {} cache {} store {} recut {} peers {} activations {} faults {} of {}decode {} nan "
      "{} import "
      "{} lie {} export {}",
      model, options.lanes, options.chunk, options.context, options.window_tokens,
      options.shape_noise, engine.exactness == Exactness::kBit ? "bit" : "token", engine.hot_lanes,
      engine.share_prefill, engine.snapshot_spacing, page, cache_bytes, store_bytes, recut, peers,
      pipeline.activation_bytes, fault_permille, kinds, runtime_faults.fail_decode.permille,
      runtime_faults.nan_decode.permille, runtime_faults.fail_import.permille,
      runtime_faults.lie_import.permille, runtime_faults.fail_export.permille);
}

Cut RandomCut(Dice& dice, std::uint32_t layers) {
  Cut cut;
  for (std::uint32_t begin = 0; begin < layers;) {
    const std::uint32_t end = dice.Between(begin + 1, layers);
    cut.push_back({begin, end});
    begin = end;
  }
  return cut;
}

// The whole model as one stage: chunks on the grid, generated tokens one by one.
class Cold {
 public:
  explicit Cold(const FakeStageOptions& options) : whole_(options) {}

  struct Answer {
    std::vector<Token> tokens;
    std::vector<std::vector<float>> logits;
  };
  const Answer& Generate(const std::vector<Token>& prompt, std::uint32_t max_tokens) {
    const auto [at, is_new] = known_.try_emplace({prompt, max_tokens});
    if (is_new) at->second = Compute(prompt, max_tokens);
    return at->second;
  }

 private:
  Answer Compute(const std::vector<Token>& prompt, std::uint32_t max_tokens) {
    FakeChain chain(whole_, {{0, static_cast<std::uint32_t>(whole_.model.size())}});
    runtime::fake::GreedySampler sampler;
    std::vector<Token> text = prompt;
    Answer answer;
    std::vector<float> logits = chain.Evaluate(kLaneA, text);
    while (answer.tokens.size() < max_tokens && text.size() <= whole_.context) {
      const Token token = *sampler.Sample(logits);
      answer.tokens.push_back(token);
      answer.logits.push_back(logits);
      text.push_back(token);
      if (text.size() > whole_.context) break;
      logits = chain.Decode({{kLaneA, TokenSpan(text).last(1)}}).front();
    }
    return answer;
  }

  const FakeStageOptions whole_;
  std::map<std::pair<std::vector<Token>, std::uint32_t>, Answer> known_;
};

class Call final : public engine::GenerationSink {
 public:
  Call(std::vector<Token> the_prompt, std::uint32_t most)
      : prompt(std::move(the_prompt)), max_tokens(most) {}
  void OnPromptProgress(const engine::PromptReport&, std::uint32_t) override {}
  Next OnToken(Token token, std::span<const float> token_logits) override {
    tokens.push_back(token);
    logits.emplace_back(token_logits.begin(), token_logits.end());
    return Next::kContinue;
  }
  void OnFinish(const engine::GenerationReport& the_report) override {
    EXPECT_FALSE(finished);
    finished = true;
    report = the_report;
  }
  bool Cancelled() const override { return gone; }

  const std::vector<Token> prompt;
  const std::uint32_t max_tokens;
  bool gone = false;
  bool finished = false;
  std::vector<Token> tokens;
  std::vector<std::vector<float>> logits;
  engine::GenerationReport report;
};

// What happened in all runs together: a simulation that reaches nothing passes too.
struct Totals {
  std::uint64_t requests = 0, failed = 0, cached = 0, cached_after_restart = 0;
  std::uint64_t warm_hits = 0, restores = 0, missing = 0, not_found = 0, lives = 0;
  std::uint64_t restore_failures = 0, records_failed = 0, recut_lives = 0;
  std::array<std::uint64_t, kLinkFaults> faults{};
};

class Simulation {
 public:
  Simulation(std::uint64_t seed, Totals& totals)
      : dice_(seed), world_(RandomWorld(dice_)), totals_(totals), cold_(world_.options) {
    const auto layers = static_cast<std::uint32_t>(world_.options.model.size());
    cut_ = RandomCut(dice_, layers);
    for (std::size_t i = 0; i < layers; ++i)
      stores_.push_back(std::make_shared<PieceStore>(world_.store_bytes));
  }

  // Empty: all was right.
  std::string Run() {
    const std::uint32_t lives = dice_.Between(1, 3);
    for (std::uint32_t life = 0; life < lives && failure_.empty(); ++life) Live(life);
    return failure_;
  }
  std::string Describe() const { return world_.Describe(); }

 private:
  struct Life {
    std::unique_ptr<Pipeline> pipeline;
    ManualClock clock;
    std::unique_ptr<PrefixCache> cache;
    std::unique_ptr<engine::Engine> engine;
  };

  void Fail(std::string what) {
    if (failure_.empty()) failure_ = std::move(what);
  }

  // A coordinator, from its start to its end. The stages outlive it, if the model is not cut anew.
  void Live(std::uint32_t number) {
    if (world_.recut && number > 0)
      cut_ = RandomCut(dice_, static_cast<std::uint32_t>(world_.options.model.size()));
    Pipeline::Setup setup;
    setup.options = world_.options;
    setup.cut = cut_;
    setup.pipeline = world_.pipeline;
    for (std::size_t i = 0; i < cut_.size(); ++i) {
      // Where layers move between stages they find their pieces in a store that all share, or ask
      // the others.
      setup.stores.push_back(world_.recut && !world_.peers ? stores_.front() : stores_[i]);
      LinkFaults faults;
      faults.seed = dice_.Next();
      faults.permille = world_.fault_permille;
      faults.kinds = world_.faults;
      faults.calls[1] = LinkFault::kNone;  // of Make
      setup.faults.push_back(std::move(faults));
      setup.runtimes.push_back(world_.runtime_faults);
      setup.runtimes.back().seed = dice_.Next();
    }
    if (world_.peers) setup.peers = stores_;
    Life life;
    life.pipeline = std::make_unique<Pipeline>(setup);
    if (!life.pipeline->runtime) return Fail("no pipeline: " + life.pipeline->error->message);
    CacheOptions cache;
    cache.shape = life.pipeline->runtime->info().shape;
    cache.policy = life.pipeline->runtime->info().policy;
    cache.page_tokens = world_.page;
    cache.max_bytes = world_.cache_bytes;
    cache.max_logits_bytes = world_.cache_bytes / 4;
    life.cache = std::make_unique<PrefixCache>(cache, life.clock);
    life.engine = std::make_unique<engine::Engine>(world_.engine, *life.pipeline->runtime,
                                                   *life.cache, life.clock);
    life_ = &life;
    first_ = number > 0;
    for (std::uint32_t event = dice_.Between(10, 25); event > 0 && failure_.empty(); --event)
      Event();
    Drain();
    if (!calls_.empty()) Fail("requests are left over");
    if (life.cache->Stats().pinned_blocks > 0) Fail("pins are left over");
    Count(life);
    life.engine.reset();
    life_ = nullptr;
    calls_.clear();
  }

  void Count(const Life& life) {
    const engine::EngineStats stats = life.engine->Stats();
    totals_.requests += stats.requests;
    totals_.failed += stats.failed;
    totals_.warm_hits += stats.hits_by_kind[static_cast<std::size_t>(engine::HitKind::kWarm)];
    totals_.restore_failures += stats.restore_failures;
    totals_.records_failed += stats.records_failed;
    totals_.lives += 1;
    totals_.recut_lives += world_.recut ? 1 : 0;
    for (const FaultyLink* link : life.pipeline->links) {
      totals_.restores += link->restores;
      totals_.missing += link->missing;
      totals_.not_found += link->not_found;
      for (std::size_t i = 0; i < kLinkFaults; ++i) totals_.faults[i] += link->faults_met[i];
    }
    if (!world_.faulty() && stats.failed > 0) Fail("a request failed without a cause");
  }

  std::vector<Token> Words(std::uint32_t most) {
    std::vector<Token> words(dice_.Between(1, most));
    for (Token& word : words) word = static_cast<Token>(dice_.Below(8));
    return words;
  }

  void Say(std::vector<Token> prompt) {
    if (prompt.size() > world_.options.context) prompt.resize(world_.options.context);
    auto call = std::make_shared<Call>(std::move(prompt), dice_.Between(0, 6));
    engine::GenerateRequest request;
    request.prompt = call->prompt;
    request.max_tokens = call->max_tokens;
    request.sampler = std::make_unique<runtime::fake::GreedySampler>();
    request.allow_decoded_result = dice_.Chance(70);
    if (dice_.Chance(30)) request.message_starts = {dice_.Between(1, 20)};
    if (world_.tenants && dice_.Chance(40)) request.tenant_salt = "other";
    request.sink = call;
    if (life_->engine->Submit(std::move(request))) calls_.push_back(std::move(call));
  }

  // A conversation goes on with what was answered; texts outlive coordinators.
  void Event() {
    switch (dice_.Below(8)) {
      case 0:
        texts_.push_back(Words(world_.options.context / 2));
        Say(texts_.back());
        break;
      case 1:
        if (texts_.empty()) break;
        Say(texts_[dice_.Below(texts_.size())]);
        break;
      case 2:
      case 3:
      case 4: {  // append or branch
        if (texts_.empty()) break;
        std::vector<Token> text = texts_[dice_.Below(texts_.size())];
        if (dice_.Chance(40)) text.resize(1 + dice_.Below(text.size()));
        for (const Token word : Words(20)) text.push_back(word);
        texts_.push_back(text);
        Say(std::move(text));
        break;
      }
      case 5:
        if (!calls_.empty() && dice_.Chance(40)) calls_.front()->gone = true;
        break;
      default: Drain(); break;
    }
    for (std::uint32_t steps = dice_.Between(0, 12); steps > 0; --steps) {
      life_->clock.Advance(1000);
      if (!life_->engine->Step()) break;
    }
    Judge();
    Check();
  }

  void Drain() {
    for (int step = 0; step < 20'000; ++step) {
      life_->clock.Advance(1000);
      if (!life_->engine->Step()) {
        Judge();
        return Check();
      }
    }
    Fail("the engine does not come to rest");
  }

  void Judge() {
    const bool bits = world_.engine.exactness == Exactness::kBit || !world_.options.shape_noise;
    std::erase_if(calls_, [&](const std::shared_ptr<Call>& call) {
      if (!call->finished) return false;
      if (const std::string wrong = WrongWith(*call, bits); !wrong.empty()) Fail(wrong);
      totals_.cached += call->report.prompt.cached_tokens;
      if (first_ && call->report.prompt.cached_tokens > 0)
        totals_.cached_after_restart += call->report.prompt.cached_tokens;
      first_ = false;
      if (!call->tokens.empty() && dice_.Chance(60)) {
        std::vector<Token> text = call->prompt;
        text.insert(text.end(), call->tokens.begin(), call->tokens.end());
        if (text.size() < world_.options.context) texts_.push_back(std::move(text));
      }
      return true;
    });
    while (texts_.size() > 8) texts_.pop_front();
  }

  std::string WrongWith(const Call& call, bool bits) {
    const engine::PromptReport& prompt = call.report.prompt;
    const FinishReason finish = call.report.finish;
    if (finish == FinishReason::kError && !world_.faulty())
      return "failed without a cause: " + call.report.error->message;
    if (finish == FinishReason::kCancelled && !call.gone) return "cancelled by nobody";
    const bool complete = finish == FinishReason::kLength || finish == FinishReason::kStop;
    if (complete && prompt.cached_tokens + prompt.evaluated_tokens != prompt.prompt_tokens)
      return "the report does not add up";
    const Cold::Answer& cold = cold_.Generate(call.prompt, call.max_tokens);
    if (complete ? call.tokens.size() != cold.tokens.size()
                 : call.tokens.size() > cold.tokens.size())
      return fmt::format("{} tokens where a cold run gives {}", call.tokens.size(),
                         cold.tokens.size());
    for (std::size_t i = 0; i < call.tokens.size(); ++i) {
      if (call.tokens[i] == cold.tokens[i] && (!bits || call.logits[i] == cold.logits[i])) continue;
      return fmt::format("token {} of a prompt of {} is wrong{}; {} hit, cached {}", i,
                         call.prompt.size(), call.tokens[i] == cold.tokens[i] ? " in its bits" : "",
                         engine::HitKindName(prompt.hit_kind), prompt.cached_tokens);
    }
    return {};
  }

  void Check() {
    if (const Status sound = life_->cache->SelfCheck(); !sound)
      Fail("self-check: " + sound.error().message);
    if (const std::string latched = life_->cache->Stats().latched; !latched.empty())
      Fail("latched: " + latched);
    for (const engine::LaneStatus& lane : life_->engine->Lanes()) {
      const Pos end = life_->pipeline->runtime->End(lane.lane);
      if (end != 0 && end != lane.resident_tokens)
        Fail(fmt::format("lane {} thinks it holds {} tokens, the runtime {}", lane.lane.value,
                         lane.resident_tokens, end));
    }
    for (const auto& store : stores_)
      if (store->bytes() > store->max_bytes()) Fail("a stage keeps more than it may");
  }

  Dice dice_;
  const World world_;
  Totals& totals_;
  Cold cold_;
  Cut cut_;
  std::vector<std::shared_ptr<PieceStore>> stores_;
  Life* life_ = nullptr;
  bool first_ = false;  // the next answer is the first of a coordinator that is not the first
  std::deque<std::vector<Token>> texts_;
  std::vector<std::shared_ptr<Call>> calls_;
  std::string failure_;
};

constexpr std::uint64_t kSeedsPerTest = 40;

class PipelineSeeds : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Fifth, PipelineSeeds, testing::Values(0, 1, 2, 3, 4));

TEST_P(PipelineSeeds, GiveTheColdRunsTokensWhateverHappensAndReachWhatTheyShould) {
  Totals totals;
  for (std::uint64_t seed = GetParam() * kSeedsPerTest + 1;
       seed <= (GetParam() + 1) * kSeedsPerTest; ++seed) {
    Simulation simulation(seed, totals);
    const std::string failure = simulation.Run();
    EXPECT_EQ(failure, "") << "seed " << seed << ": " << simulation.Describe();
  }
  EXPECT_GT(totals.requests, 200U);
  EXPECT_GT(totals.cached, 1000U);
  EXPECT_GT(totals.cached_after_restart, 50U);
  EXPECT_GT(totals.warm_hits, 50U);
  EXPECT_GT(totals.restores, 100U);
  EXPECT_GT(totals.missing, 20U);
  EXPECT_GT(totals.restore_failures, 0U);
  EXPECT_GT(totals.records_failed, 0U);
  EXPECT_GT(totals.failed, 0U);
  EXPECT_GT(totals.recut_lives, 5U);
  for (std::size_t fault = 1; fault < kLinkFaults; ++fault) EXPECT_GT(totals.faults[fault], 0U);
}

}  // namespace
}  // namespace skippy::pipeline
