// Sampling with llama.cpp's own sampler chain and grammars, from any logits (fresh or cached).
#pragma once

#include <memory>
#include <span>

#include "llama/model.h"
#include "runtime/runtime.h"
#include "skippy/result.h"

struct common_params_sampling;
struct llama_token_data_array;

namespace skippy::llama {

// Sample() returns the same token until Accept(): the chain's random numbers advance once a step.
// After a token that the grammar cannot take was accepted, every Sample() is an error.
class LlamaSampler : public runtime::Sampler {
 public:
  // Candidates of the last Sample(), with probabilities, sorted if asked: for post-sampling
  // logprobs.
  virtual const llama_token_data_array& Candidates(bool sorted) = 0;
  virtual std::uint32_t seed() const = 0;
  // llama-server feeds the prompt's tokens to the chain (penalties, DRY) but not to the grammar.
  virtual void AcceptPrompt(TokenSpan prompt) = 0;
};

// kInvalidArgument: a grammar that does not parse, or a parameter out of range (message says
// which).
Result<std::unique_ptr<LlamaSampler>> MakeSampler(const Model& model,
                                                  const common_params_sampling& params);

}  // namespace skippy::llama
