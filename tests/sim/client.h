// The clients of a simulated run: they submit, watch, and keep what the engine told them for
// judgement.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cold_oracle.h"
#include "engine/engine.h"

namespace skippy::sim {

// One request as a client sees it.
class Call final : public engine::GenerationSink {
 public:
  explicit Call(ColdRequest the_request) : request(std::move(the_request)) {}

  void OnPromptProgress(const engine::PromptReport& so_far, std::uint32_t processed) override;
  Next OnToken(Token token, std::span<const float> token_logits) override;
  void OnFinish(const engine::GenerationReport& the_report) override;
  bool Cancelled() const override { return gone; }

  const ColdRequest request;
  std::string salt;
  std::size_t stop_after = SIZE_MAX;  // the client has read enough
  bool gone = false;
  RequestId id{};
  std::vector<Token> tokens;
  std::vector<std::vector<float>> logits;
  bool finished = false;
  engine::GenerationReport report;
  std::string protocol_error;  // the engine broke the sink's contract
};

struct Judge {
  ColdOracle& oracle;
  bool bit_exact = false;  // compare logits, not only tokens
  bool may_fail = false;   // passes were made to fail in this run
};

// What is wrong with a finished call; empty: nothing.
std::string WrongWith(const Call& call, const Judge& judge);

// A number for all that the call was told.
std::uint64_t TraceOf(const Call& call);

}  // namespace skippy::sim
