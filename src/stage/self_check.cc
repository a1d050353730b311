#include "stage/self_check.h"

#include <algorithm>

#include "llama/llama_runtime.h"
#include "runtime/compare_floats.h"
#include "skippy/random.h"
#include "stage/chain.h"

namespace skippy::stage {
namespace {

constexpr SeqId kLane{0};

void Compare(std::span<const float> whole, std::span<const float> staged, Pos at,
             CheckResult& result) {
  ++result.compared;
  if (!whole.empty() && runtime::SameBits(whole, staged)) {
    ++result.equal;
    return;
  }
  if (result.equal + 1 == result.compared) result.first_difference = at;
  result.largest_difference =
      std::max(result.largest_difference, runtime::LargestDifference(whole, staged));
}

}  // namespace

Result<CheckResult> CheckStages(const std::string& model, const std::string& vocabulary,
                                const std::vector<std::string>& stages,
                                const CheckOptions& options) {
  SKIPPY_TRY(const std::unique_ptr<llama::Model> whole,
             llama::Model::Load({.path = model, .adapters = {}}));
  SKIPPY_TRY(const auto reference, llama::MakeRuntime(*whole, options.runtime));
  SKIPPY_TRY(const std::unique_ptr<Chain> chain, Chain::Load(vocabulary, stages, options.runtime));
  const runtime::RuntimeInfo& info = reference->info();
  std::vector<Token> tokens;
  for (Pos i = 0; i < options.prompt; ++i)
    tokens.push_back(static_cast<Token>(SplitMix64(i) % info.vocab));
  CheckResult result;
  Pos at = 0;
  while (at < tokens.size()) {
    const TokenSpan step =
        TokenSpan(tokens).subspan(at, std::min<std::size_t>(info.chunk, tokens.size() - at));
    const runtime::DecodeItem item{kLane, at, step, true};
    SKIPPY_RETURN_IF_ERROR(reference->Decode({&item, 1}));
    SKIPPY_RETURN_IF_ERROR(chain->Decode(kLane, at, step, true));
    at += static_cast<Pos>(step.size());
    const std::span<const float> logits = reference->Logits(0);
    Compare(logits, chain->Logits(), at, result);
    if (at == tokens.size() && at < options.prompt + options.steps) {
      const auto best = std::max_element(logits.begin(), logits.end());
      tokens.push_back(static_cast<Token>(best - logits.begin()));
    }
  }
  return result;
}

}  // namespace skippy::stage
