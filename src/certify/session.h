// Session: the production engine and cache on a runtime, stepped by the certifier, with a sink that
// keeps the logits of every token.
//
// Threads: one; the engine has no thread of its own here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "certify/arena.h"
#include "engine/engine.h"
#include "skippy/prefix_cache.h"

namespace skippy::certify {

class CaptureSink final : public engine::GenerationSink {
 public:
  explicit CaptureSink(Pos abort_after) : abort_after_(abort_after) {}
  void OnPromptProgress(const engine::PromptReport&, std::uint32_t processed) override {
    if (abort_after_ > 0 && processed >= abort_after_) gone_ = true;
  }
  Next OnToken(Token token, std::span<const float> logits) override {
    answer.tokens.push_back(token);
    answer.logits.emplace_back(logits.begin(), logits.end());
    if (at_token) at_token(answer);
    return Next::kContinue;
  }
  void OnFinish(const engine::GenerationReport& report) override {
    answer.report = report;
    finished = true;
  }
  bool Cancelled() const override { return gone_; }

  Answer answer;
  bool finished = false;
  std::function<void(Answer&)> at_token;

 private:
  const Pos abort_after_;
  bool gone_ = false;
};

struct SessionOptions {
  engine::EngineOptions engine;
  std::uint64_t max_bytes = 0;  // of the cache; 0: nothing is ever kept in it
};

class Session {
 public:
  // Clears the lanes first. `runtime`: one of the arena's.
  Session(Arena& arena, runtime::Runtime& runtime, const SessionOptions& options);

  // From start to end; an error when the request could not be submitted or failed.
  Result<Answer> Run(const Ask& ask);
  Result<std::shared_ptr<CaptureSink>> Submit(const Ask& ask);
  // What a finished request answered, with the state that its lane was left with.
  Result<Answer> Take(CaptureSink& sink);

  engine::Engine& engine() { return engine_; }
  PrefixCache& cache() { return cache_; }

 private:
  Arena& arena_;
  runtime::Runtime& runtime_;
  const bool keeps_lanes_;
  // A runtime that keeps state itself knows what earlier sessions left there.
  const std::string salt_;
  PrefixCache cache_;
  engine::Engine engine_;
};

// Room for `prompts` prompts of `tokens` tokens with all their snapshots and some logits.
std::uint64_t CacheBytes(const runtime::RuntimeInfo& info, Pos tokens, double prompts);

}  // namespace skippy::certify
