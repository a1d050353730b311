// More conversations than the cache can hold, on the fake runtime: what the engine evaluates, and
// what a server would that keeps whole conversations, least recently used first out, beside the one
// in its slot (llama-server's prompt cache). Mirrors bench/compare/scenarios/memory_pressure.py.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <random>
#include <vector>

#include "engine/engine.h"
#include "runtime/fake/fake_runtime.h"
#include "runtime/fake/fake_sampler.h"
#include "skippy/clock.h"

namespace skippy::bench {

struct Pressure {
  runtime::fake::ShapeKind shape = runtime::fake::ShapeKind::kAttention;
  std::uint32_t snapshot_bytes = 0;
  std::uint32_t vocab = 64;  // four bytes of logits each
  std::uint32_t conversations = 24;
  std::uint32_t turns = 60;
  std::uint32_t recent = 4;     // of these the next one is half of the time
  std::uint32_t share = 3;      // of the conversations, one in so many fits
  std::uint32_t first = 297;    // tokens before the first question
  std::uint32_t question = 30;  // a turn, the last three of them the template's
  std::uint32_t answer = 16;
  std::uint32_t in_the_end = 450;  // tokens of a conversation, for the cap
  std::uint64_t seed = 1;
};

struct PressureResult {
  std::uint64_t ideal = 0;  // tokens evaluated by a cache without a cap
  std::uint64_t ours = 0;
  std::uint64_t whole_lru = 0;
};

class AnswerSink final : public engine::GenerationSink {
 public:
  void OnPromptProgress(const engine::PromptReport&, std::uint32_t) override {}
  Next OnToken(Token token, std::span<const float>) override {
    tokens.push_back(token);
    return Next::kContinue;
  }
  void OnFinish(const engine::GenerationReport& the_report) override {
    report = the_report;
    finished = true;
  }
  bool Cancelled() const override { return false; }

  std::vector<Token> tokens;
  engine::GenerationReport report;
  bool finished = false;
};

// Whole conversations, one entry each; the one in the slot is not counted.
class WholeLru {
 public:
  WholeLru(const MemoryShape& shape, std::uint64_t cap) : shape_(shape), cap_(cap) {}

  // Tokens of the conversation's state that are there; it is in the slot afterwards with `length`.
  std::uint32_t Serve(std::uint32_t conversation, std::uint32_t length) {
    std::uint32_t cached = 0;
    if (slot_.length > 0 && slot_.conversation == conversation) {
      cached = slot_.length;
    } else {
      if (slot_.length > 0) entries_.push_back(slot_);
      const auto it = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
        return entry.conversation == conversation;
      });
      if (it != entries_.end()) {
        cached = it->length;
        entries_.erase(it);
      }
      while (!entries_.empty() && Bytes() > cap_) entries_.pop_front();
    }
    slot_ = {conversation, length};
    return cached;
  }

  static std::uint64_t BytesOf(const MemoryShape& shape, Pos tokens) {
    return std::uint64_t{tokens} * shape.kv_row_bytes +
           std::uint64_t{tokens - shape.WindowBegin(tokens)} * shape.window_row_bytes +
           shape.snapshot_bytes;
  }

 private:
  struct Entry {
    std::uint32_t conversation = 0;
    std::uint32_t length = 0;
  };
  std::uint64_t Bytes() const {
    std::uint64_t bytes = 0;
    for (const Entry& entry : entries_) bytes += BytesOf(shape_, entry.length);
    return bytes;
  }

  const MemoryShape shape_;
  const std::uint64_t cap_;
  std::list<Entry> entries_;  // the one saved last is the last
  Entry slot_;
};

class PressureRun {
 public:
  explicit PressureRun(const Pressure& wish)
      : wish_(wish), random_(wish.seed), runtime_(RuntimeOptions(wish)) {}

  PressureResult Run() {
    const MemoryShape& shape = runtime_.info().shape;
    CacheOptions options;
    options.shape = shape;
    options.max_bytes =
        wish_.conversations * WholeLru::BytesOf(shape, wish_.in_the_end) / wish_.share;
    options.max_logits_bytes = options.max_bytes / 16;  // as `serve`
    const SteadyClock clock;
    PrefixCache cache(options, clock);
    engine::Engine engine({}, runtime_, cache, clock);
    WholeLru peer(shape, options.max_bytes);
    conversations_.resize(wish_.conversations);
    std::vector<std::uint32_t> recent;
    PressureResult result;
    for (std::uint32_t turn = 0; turn < wish_.turns; ++turn) {
      const std::uint32_t which = Next(recent);
      std::erase(recent, which);
      recent.push_back(which);
      if (recent.size() > wish_.recent) recent.erase(recent.begin());
      Conversation& conversation = conversations_[which];
      const auto known = static_cast<std::uint32_t>(conversation.text.size());
      Question(conversation);
      const auto asked = static_cast<std::uint32_t>(conversation.text.size());
      result.ours += Ask(engine, conversation);
      result.ideal += asked - (known > 0 ? known - 1 : 0);
      // An answer's last token is sampled but not evaluated.
      const auto length = static_cast<std::uint32_t>(conversation.text.size()) - 1;
      result.whole_lru += asked - peer.Serve(which, length);
    }
    stats = cache.Stats();
    return result;
  }

  CacheStats stats;

 private:
  struct Conversation {
    std::vector<Token> text;
    std::vector<Pos> starts;  // of messages, and where the last one ends
  };

  static runtime::fake::FakeOptions RuntimeOptions(const Pressure& wish) {
    runtime::fake::FakeOptions options;
    options.shape = wish.shape;
    options.lanes = 1;
    options.context = 4096;
    options.chunk = 256;
    options.vocab = wish.vocab;
    options.window_tokens = 64;
    options.snapshot_bytes = wish.snapshot_bytes;
    return options;
  }

  std::uint32_t Next(const std::vector<std::uint32_t>& recent) {
    if (!recent.empty() && random_() % 2 == 0) return recent[random_() % recent.size()];
    return static_cast<std::uint32_t>(random_() % wish_.conversations);
  }

  void Add(std::vector<Token>& text, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i)
      text.push_back(static_cast<Token>(random_() % wish_.vocab));
  }

  void Question(Conversation& conversation) {
    std::vector<Token>& text = conversation.text;
    if (text.empty()) {
      text = {1, 2, 3};  // a template's beginning, shared by all
      Add(text, wish_.first);
    }
    conversation.starts.push_back(static_cast<Pos>(text.size()));
    Add(text, wish_.question - 3);
    conversation.starts.push_back(static_cast<Pos>(text.size()));
    text.insert(text.end(), {1, 2, 3});
  }

  // Tokens evaluated of the prompt; the answer is appended.
  std::uint32_t Ask(engine::Engine& engine, Conversation& conversation) {
    const auto sink = std::make_shared<AnswerSink>();
    engine::GenerateRequest request;
    request.prompt = conversation.text;
    request.message_starts = conversation.starts;
    request.max_tokens = wish_.answer;
    request.sampler = std::make_unique<runtime::fake::GreedySampler>();
    request.sink = sink;
    if (!engine.Submit(std::move(request))) return 0;
    while (!sink->finished && engine.Step()) {
    }
    conversation.text.insert(conversation.text.end(), sink->tokens.begin(), sink->tokens.end());
    return sink->report.prompt.evaluated_tokens;
  }

  const Pressure wish_;
  std::mt19937_64 random_;
  runtime::fake::FakeRuntime runtime_;
  std::vector<Conversation> conversations_;
};

}  // namespace skippy::bench
