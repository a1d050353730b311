// Nothing is evaluated twice: the engine's evaluated tokens against those of a perfect prefix tree.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "client.h"
#include "engine/engine.h"
#include "random.h"
#include "runtime/fake/fake_runtime.h"
#include "runtime/fake/fake_sampler.h"
#include "simulation.h"
#include "skippy/clock.h"
#include "skippy/prefix_cache.h"
#include "world.h"

namespace skippy::sim {
namespace {

// All text whose state was ever computed, and the prompts whose logits were.
class PerfectTree {
 public:
  // Tokens that must be evaluated for this prompt, if everything known can be used.
  std::uint64_t Needs(const std::vector<Token>& prompt) const {
    if (std::find(prompts_.begin(), prompts_.end(), prompt) != prompts_.end()) return 0;
    return prompt.size() - std::min(Known(prompt), prompt.size() - 1);
  }
  std::size_t Known(const std::vector<Token>& prompt) const {
    std::size_t known = 0;
    for (const std::vector<Token>& text : texts_) {
      const auto [end, unused] =
          std::mismatch(prompt.begin(), prompt.end(), text.begin(), text.end());
      known = std::max(known, static_cast<std::size_t>(end - prompt.begin()));
    }
    return known;
  }
  // A state is at hand exactly at this text's end.
  bool IsEnd(const std::vector<Token>& prompt, std::size_t length) const {
    return std::any_of(texts_.begin(), texts_.end(), [&](const std::vector<Token>& text) {
      return text.size() == length && std::equal(text.begin(), text.end(), prompt.begin());
    });
  }
  void AddPrompt(const std::vector<Token>& prompt) {
    prompts_.push_back(prompt);
    texts_.push_back(prompt);
  }
  void AddText(std::vector<Token> text) { texts_.push_back(std::move(text)); }

 private:
  std::vector<std::vector<Token>> prompts_;
  std::vector<std::vector<Token>> texts_;
};

class Economy {
 public:
  Economy(const WorldConfig& world, Random& random)
      : world_(world),
        random_(random),
        runtime_(world.fake),
        cache_(world.cache, clock_),
        engine_(world.engine, runtime_, cache_, clock_),
        oracle_(world.fake) {}

  RunResult Run() {
    for (std::uint32_t i = 0; i < world_.events && result_.ok(); ++i) Batch();
    return result_;
  }

 private:
  struct Asked {
    std::shared_ptr<Call> call;
    std::uint64_t ideal = 0;    // what a perfect tree would evaluate
    std::uint64_t at_most = 0;  // what this memory may
  };

  std::vector<Token> Words(std::uint32_t most) {
    std::vector<Token> words(random_.Between(1, most));
    for (Token& word : words) word = static_cast<Token>(random_.Below(64));
    return words;
  }

  // A new text, a known one, one that goes on, or one that branches off.
  std::vector<Token> NextPrompt() {
    if (texts_.empty() || random_.Chance(15)) return Words(100);
    std::vector<Token> prompt = texts_[random_.Below(texts_.size())];
    if (random_.Chance(20)) return prompt;
    if (random_.Chance(50))
      prompt.resize(random_.Between(1, static_cast<std::uint32_t>(prompt.size())));
    const std::vector<Token> tail = Words(30);
    prompt.insert(prompt.end(), tail.begin(), tail.end());
    if (prompt.size() > 200) prompt.resize(200);
    return prompt;
  }

  void Batch() {
    std::vector<Asked> asked;
    const std::uint32_t width = random_.Chance(50) ? 1 : random_.Between(2, 8);
    for (std::uint32_t i = 0; i < width; ++i) Ask(asked);
    for (int i = 0; i < 100'000 && engine_.Step(); ++i) clock_.Advance(1000);
    for (const Asked& one : asked) {
      texts_.push_back(one.call->request.prompt);
      std::vector<Token> whole = one.call->request.prompt;
      whole.insert(whole.end(), one.call->tokens.begin(), one.call->tokens.end());
      texts_.push_back(whole);
      if (!one.call->tokens.empty()) whole.pop_back();  // the last one was never evaluated
      tree_.AddText(std::move(whole));
    }
    for (const Asked& one : asked) Judge(one);
  }

  void Ask(std::vector<Asked>& asked) {
    ColdRequest request;
    request.prompt = NextPrompt();
    request.max_tokens = random_.OneOf<std::uint32_t>({0, 1, 5, 20});
    request.sampler_seed = random_.Between(0, 3);
    Asked one;
    one.call = std::make_shared<Call>(request);
    one.ideal = tree_.Needs(request.prompt);
    one.at_most = AtMost(request.prompt);
    tree_.AddPrompt(request.prompt);
    engine::GenerateRequest generate;
    generate.prompt = request.prompt;
    generate.max_tokens = request.max_tokens;
    if (request.sampler_seed == 0)
      generate.sampler = std::make_unique<runtime::fake::GreedySampler>();
    else
      generate.sampler = std::make_unique<runtime::fake::SeededSampler>(request.sampler_seed);
    generate.sink = one.call;
    if (const auto id = engine_.Submit(std::move(generate)))
      one.call->id = *id;
    else
      result_.failure = id.error().message;
    asked.push_back(std::move(one));
  }

  // Attention resumes at any token. Other memory resumes at the end of a known text exactly, and at
  // a branch from the last snapshot before it: at most one chunk is evaluated again.
  std::uint64_t AtMost(const std::vector<Token>& prompt) {
    const std::uint64_t needs = tree_.Needs(prompt);
    result_.ideal_tokens += needs;
    if (world_.cache.shape.AnyBoundary() || needs == 0) return needs;
    if (tree_.IsEnd(prompt, prompt.size() - needs)) return needs;
    return std::min<std::uint64_t>(prompt.size(), needs + world_.fake.chunk);
  }

  void Judge(const Asked& one) {
    ++result_.requests;
    const std::string wrong = WrongWith(*one.call, {oracle_, true, false});
    const engine::PromptReport& prompt = one.call->report.prompt;
    result_.cached_tokens += prompt.cached_tokens;
    result_.evaluated_tokens += prompt.evaluated_tokens;
    if (!wrong.empty()) {
      result_.failure = wrong;
    } else if (prompt.evaluated_tokens > one.at_most) {
      result_.failure = fmt::format(
          "request {} of {} tokens: {} evaluated, {} needed, {} allowed (hit {}, cached {}, known "
          "{})",
          one.call->id.value, prompt.prompt_tokens, prompt.evaluated_tokens, one.ideal, one.at_most,
          engine::HitKindName(prompt.hit_kind), prompt.cached_tokens, prompt.first_different);
    }
  }

  const WorldConfig& world_;
  Random& random_;
  ManualClock clock_;
  runtime::fake::FakeRuntime runtime_;
  PrefixCache cache_;
  engine::Engine engine_;
  ColdOracle oracle_;
  PerfectTree tree_;
  std::vector<std::vector<Token>> texts_;
  RunResult result_;
};

}  // namespace

RunResult RunEconomy(std::uint64_t seed) {
  Random random(seed);
  const WorldConfig world = EconomyWorld(random);
  RunResult result = Economy(world, random).Run();
  result.world = world.Describe();
  return result;
}

}  // namespace skippy::sim
