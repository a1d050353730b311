#include "cold_oracle.h"

#include <algorithm>
#include <memory>

#include "runtime/fake/fake_sampler.h"

namespace skippy::sim {
namespace {

constexpr SeqId kLane{0};

runtime::fake::FakeOptions OneLane(runtime::fake::FakeOptions options) {
  options.lanes = 1;
  return options;
}

std::unique_ptr<runtime::Sampler> MakeSampler(std::uint64_t seed) {
  if (seed == 0) return std::make_unique<runtime::fake::GreedySampler>();
  return std::make_unique<runtime::fake::SeededSampler>(seed);
}

}  // namespace

ColdOracle::ColdOracle(const runtime::fake::FakeOptions& options) : options_(OneLane(options)) {}

const ColdAnswer& ColdOracle::Answer(const ColdRequest& request) {
  auto key =
      std::make_tuple(request.prompt, request.adapters, request.sampler_seed, request.max_tokens);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  return known_.emplace(std::move(key), Compute(request)).first->second;
}

ColdAnswer ColdOracle::Compute(const ColdRequest& request) const {
  runtime::fake::FakeRuntime runtime(options_);
  ColdAnswer answer;
  if (!runtime.UseAdapters(request.adapters)) return answer;
  const std::unique_ptr<runtime::Sampler> sampler = MakeSampler(request.sampler_seed);
  std::vector<Token> text = request.prompt;
  while (answer.tokens.size() < request.max_tokens && text.size() <= options_.context) {
    while (runtime.End(kLane) < text.size()) {
      const Pos begin = runtime.End(kLane);
      const std::size_t end =
          std::min<std::size_t>(text.size(), (begin / options_.chunk + 1) * options_.chunk);
      const runtime::DecodeItem item{kLane, begin, TokenSpan(text).subspan(begin, end - begin),
                                     true};
      if (!runtime.Decode({&item, 1})) return answer;
    }
    const std::span<const float> logits = runtime.Logits(0);
    const Result<Token> token = sampler->Sample(logits);
    if (!token) return answer;
    sampler->Accept(*token);
    answer.tokens.push_back(*token);
    answer.logits.emplace_back(logits.begin(), logits.end());
    text.push_back(*token);
  }
  return answer;
}

}  // namespace skippy::sim
