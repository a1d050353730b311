// One answer on the engine thread: tokens become text, stop conditions are found, probabilities
// computed, and results in llama-server's form go to the request's mailbox.
//
// Threads: constructed on the HTTP thread, then called by the engine thread only, but for
// Cancelled().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/mailbox.h"
#include "api/text_assembler.h"
#include "engine/request.h"
#include "llama/sampler.h"
#include "server-task.h"
#include "skippy/clock.h"

namespace skippy::api {

struct SinkOptions {
  const llama_vocab* vocab = nullptr;
  const Clock* clock = nullptr;
  task_params params;
  std::size_t choice = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t room = 0;                  // tokens that fit behind the prompt
  std::string prompt_text;                 // echoed by the native API
  llama::LlamaSampler* sampler = nullptr;  // owned by the engine's request, alive between calls
  std::shared_ptr<Mailbox> mailbox;
  std::function<void(const engine::GenerationReport&)>
      on_finish;  // counters and logs; must be quick
};

class CompletionSink final : public engine::GenerationSink {
 public:
  explicit CompletionSink(SinkOptions options);

  void OnPromptProgress(const engine::PromptReport& report, std::uint32_t processed) override;
  Next OnToken(Token token, std::span<const float> logits) override;
  void OnFinish(const engine::GenerationReport& report) override;
  bool Cancelled() const override { return options_.mailbox->abandoned(); }

 private:
  void AddProbabilities(completion_token_output& output, std::span<const float> logits);
  std::string Piece(Token token) const;
  bool GuardNesting(const std::string& piece);
  void SendPartial(const completion_token_output& output, bool is_progress,
                   std::uint32_t processed);
  void SendFinal(const engine::GenerationReport& report);
  server_slot_stats RunningStats() const;

  SinkOptions options_;
  TextAssembler text_;
  engine::PromptReport prompt_;
  Tick admitted_{};
  Tick first_token_{};
  Tick last_token_{};
  std::uint32_t generated_ = 0;
  bool begun_ = false;
  bool partial_sent_ = false;
  stop_type stop_ = STOP_TYPE_NONE;
  std::size_t nesting_ = 0;
  std::vector<llama_token> tokens_;
  std::vector<completion_token_output> probabilities_;
};

// The stats of a finished request; what the formatting code divides by is never zero by accident.
server_slot_stats StatsOf(const engine::GenerationReport& report);

}  // namespace skippy::api
