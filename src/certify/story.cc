#include "certify/story.h"

#include <algorithm>

#include "certify/session.h"

namespace skippy::certify {
namespace {

constexpr std::uint64_t kUnrelated = 100;  // text numbers from here on
constexpr Pos kRewind = 5;

std::vector<Token> Head(std::vector<Token> text, Pos length) {
  text.resize(length);
  return text;
}

class Builder {
 public:
  Builder(Arena& arena, Tier tier, Exactness exactness)
      : arena_(arena), sizes_(arena.sizes()), tier_(tier) {
    // A lane whose state cannot be cut back must end on the grid to be gone on with bit-exactly: a
    // prompt of whole chunks and no decoded token.
    must_end_on_grid_ =
        tier == Tier::kHot && arena.shape().HasSnapshot() && exactness == Exactness::kBit;
    const bool on_grid = must_end_on_grid_ || tier == Tier::kDecoded;
    prompt_ = arena.Text(on_grid ? sizes_.grid : sizes_.base, 0);
    story_.max_bytes = tier == Tier::kHot ? 0 : Bytes(8);
    story_.forget_lanes = tier == Tier::kDecoded;
  }

  Story Build(Scenario scenario);

 private:
  std::uint64_t Bytes(double prompts) const {
    const Pos longest = sizes_.base + 2 * sizes_.generated + sizes_.extra;
    return CacheBytes(arena_.info(), longest, prompts);
  }
  Ask First(std::vector<Token> prompt) const {
    Ask ask{std::move(prompt), must_end_on_grid_ ? 1 : sizes_.generated};
    // A message start off the grid: in the token setting, recurrent state is kept there too.
    ask.message_starts = {arena_.info().chunk + arena_.info().chunk / 2};
    return ask;
  }
  std::vector<Token> More(std::uint64_t which) const { return arena_.Text(sizes_.extra, which); }
  Ask Unrelated(std::uint64_t which) const {
    return {UnrelatedText(arena_, sizes_.base, which), 1};
  }
  // The next turn; for decoded results, the same prompt once more.
  void GoOnFrom(std::size_t setup) {
    if (tier_ == Tier::kDecoded) {
      Probe(prompt_);
    } else {
      story_.after_answer = setup;
      story_.next = More(2);
    }
  }
  void Probe(std::vector<Token> prompt) {
    story_.probe.prompt = std::move(prompt);
    story_.probe.max_tokens = sizes_.generated;
    story_.probe.message_starts = First({}).message_starts;
    story_.probe.allow_decoded_result = tier_ == Tier::kDecoded;
  }
  void Evict();

  Arena& arena_;
  const Sizes& sizes_;
  const Tier tier_;
  bool must_end_on_grid_ = false;
  std::vector<Token> prompt_;
  Story story_;
};

void Builder::Evict() {
  story_.evicts = true;
  story_.setup = {First(prompt_)};
  if (tier_ == Tier::kHot) {
    for (std::uint32_t lane = 0; lane < arena_.info().lanes; ++lane) {
      Ask other = Unrelated(lane);
      other.prompt.resize(std::min<std::size_t>(other.prompt.size(), arena_.info().chunk));
      story_.setup.push_back(std::move(other));
    }
  } else {
    story_.max_bytes = Bytes(1.7);
    for (std::uint64_t i = 0; i < 3; ++i) story_.setup.push_back(Unrelated(i));
  }
  story_.setup.push_back(First(prompt_));
  GoOnFrom(story_.setup.size() - 1);
}

Story Builder::Build(Scenario scenario) {
  const Pos length = static_cast<Pos>(prompt_.size());
  Probe(prompt_);
  switch (scenario) {
    case Scenario::kAppend:
      story_.setup = {First(prompt_)};
      GoOnFrom(0);
      break;
    case Scenario::kExactRepeat:
      story_.setup = {First(prompt_)};
      story_.forget_lanes = false;  // as the engine would have it
      break;
    case Scenario::kRewind5:
      story_.setup = {First(prompt_)};
      Probe(Joined(Head(prompt_, length - kRewind), More(3)));
      break;
    case Scenario::kRewindMiddle:
      story_.setup = {First(prompt_)};
      Probe(Joined(Head(prompt_, length / 2), More(4)));
      break;
    case Scenario::kBranch:
      story_.setup = {First(Joined(prompt_, More(5))), First(Joined(prompt_, More(6)))};
      story_.compare_too = 1;
      if (tier_ == Tier::kDecoded) {
        story_.setup.insert(story_.setup.begin(), First(prompt_));
        story_.compare_too = 2;
      } else {
        Probe(Joined(prompt_, More(7)));
      }
      break;
    case Scenario::kUnrelatedBetween:
      story_.setup = {First(prompt_), Unrelated(0)};
      GoOnFrom(0);
      break;
    case Scenario::kEvictedAndBack: Evict(); break;
    case Scenario::kAbortedAndRetried:
      story_.setup = {First(prompt_)};
      story_.setup[0].abort_after = arena_.FloorToGrid(length - 1);
      break;
  }
  return std::move(story_);
}

}  // namespace

std::vector<Token> Joined(std::vector<Token> head, const std::vector<Token>& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

Pos CommonPrefix(TokenSpan a, TokenSpan b) {
  const auto [end, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<Pos>(end - a.begin());
}

std::vector<Token> UnrelatedText(Arena& arena, std::size_t count, std::uint64_t which) {
  constexpr std::uint64_t kTries = 64;
  const Token first = arena.Text(1, 0).front();
  std::vector<Token> text;
  for (std::uint64_t i = 0; i < kTries; ++i) {
    text = arena.Text(count, kUnrelated + which * kTries + i);
    if (text.front() != first) break;
  }
  return text;
}

Story MakeStory(Arena& arena, Tier tier, Scenario scenario, Exactness exactness) {
  return Builder(arena, tier, exactness).Build(scenario);
}

std::vector<Token> EvaluatedText(const Told& told) {
  const engine::PromptReport& report = told.answer.report.prompt;
  std::vector<Token> text = told.ask.prompt;
  text.resize(std::min<std::size_t>(text.size(), report.cached_tokens + report.evaluated_tokens));
  const std::vector<Token>& answer = told.answer.tokens;
  // The last token of an answer was sampled, not evaluated.
  if (answer.size() > 1) text.insert(text.end(), answer.begin(), answer.end() - 1);
  return text;
}

Reach HostReach(const Arena& arena, const std::vector<Told>& told, const Ask& probe,
                Exactness exactness) {
  Pos common = 0;
  for (const Told& one : told) {
    std::vector<Token> text = EvaluatedText(one);
    if (exactness == Exactness::kBit)
      text.resize(std::min(text.size(), one.ask.prompt.size()));  // decoded rows are not kept
    common = std::max(common, CommonPrefix(text, probe.prompt));
  }
  const Pos limit = static_cast<Pos>(probe.prompt.size()) - 1;
  const Pos reach = arena.FloorToGrid(std::min(common, limit));
  return {reach, reach > 0 ? "" : "the common text is shorter than a chunk"};
}

Reach HotReach(Arena& arena, const std::vector<Told>& told, const Ask& probe, Exactness exactness) {
  const MemoryShape& shape = arena.shape();
  const Pos limit = static_cast<Pos>(probe.prompt.size()) - 1;
  Reach best{0, "no lane holds the text any more"};
  Pos best_common = 0;
  for (std::size_t i = 0; i < told.size(); ++i) {
    const SeqId lane = told[i].answer.report.lane;
    const bool overwritten =
        std::any_of(told.begin() + static_cast<std::ptrdiff_t>(i) + 1, told.end(),
                    [&](const Told& later) { return later.answer.report.lane == lane; });
    const Pos end = arena.tested().End(lane);
    if (overwritten || end == 0) continue;
    const Pos common = CommonPrefix(EvaluatedText(told[i]), probe.prompt);
    Pos target = std::min(common, limit);
    if (exactness == Exactness::kBit) {
      const Pos prefilled = std::min<Pos>(end, static_cast<Pos>(told[i].ask.prompt.size()));
      target = arena.FloorToGrid(std::min(target, prefilled));
    }
    Reach reach{target, ""};
    if (target == 0) {
      reach.reason = "no boundary of the lane's text can be gone on from";
    } else if (target != end && shape.HasSnapshot()) {
      reach = {0, "a recurrent state cannot be cut back in its lane; host pages serve this"};
    } else if (target != end && shape.HasWindow() &&
               arena.tested().WindowHeldFrom(lane) > shape.WindowBegin(target)) {
      reach = {0,
               "the window's ring no longer holds the rows before the boundary; host pages "
               "serve this"};
    }
    if (reach.tokens > best.tokens || (best.tokens == 0 && common > best_common)) best = reach;
    best_common = std::max(best_common, common);
  }
  return best;
}

}  // namespace skippy::certify
