#include "llama/sampler.h"

#include <common.h>
#include <fmt/format.h>
#include <llama.h>
#include <reasoning-budget.h>
#include <sampling.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "llama/grammar_guard.h"
#include "llama/log_hook.h"
#include "llama/top_k.h"
#include "skippy/random.h"

namespace skippy::llama {
namespace {

constexpr std::int32_t kMaxHistory =
    1 << 21;  // more than any context: a longer history changes nothing
constexpr std::int32_t kMaxLeadingTopK =
    1024;  // beyond, a heap is no quicker than llama.cpp's sort

struct SamplerFree {
  void operator()(llama_sampler* sampler) const { llama_sampler_free(sampler); }
};
using SamplerPtr = std::unique_ptr<llama_sampler, SamplerFree>;

Status CheckFinite(const char* name, float value) {
  if (std::isfinite(value)) return {};
  return Err(ErrorCode::kInvalidArgument, fmt::format("{} must be a finite number", name));
}

Status CheckParams(const common_params_sampling& params, std::int32_t vocab) {
  const std::pair<const char*, float> numbers[] = {{"temperature", params.temp},
                                                   {"top_p", params.top_p},
                                                   {"min_p", params.min_p},
                                                   {"typical_p", params.typ_p},
                                                   {"xtc_probability", params.xtc_probability},
                                                   {"xtc_threshold", params.xtc_threshold},
                                                   {"dynatemp_range", params.dynatemp_range},
                                                   {"dynatemp_exponent", params.dynatemp_exponent},
                                                   {"repeat_penalty", params.penalty_repeat},
                                                   {"frequency_penalty", params.penalty_freq},
                                                   {"presence_penalty", params.penalty_present},
                                                   {"dry_multiplier", params.dry_multiplier},
                                                   {"dry_base", params.dry_base},
                                                   {"adaptive_target", params.adaptive_target},
                                                   {"adaptive_decay", params.adaptive_decay},
                                                   {"top_n_sigma", params.top_n_sigma},
                                                   {"mirostat_tau", params.mirostat_tau},
                                                   {"mirostat_eta", params.mirostat_eta}};
  for (const auto& [name, value] : numbers) SKIPPY_RETURN_IF_ERROR(CheckFinite(name, value));
  if (params.mirostat < 0 || params.mirostat > 2)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("mirostat: {} is not 0, 1 or 2", params.mirostat));
  if (params.penalty_last_n > kMaxHistory || params.dry_penalty_last_n > kMaxHistory)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("repeat_last_n and dry_penalty_last_n must not exceed {}", kMaxHistory));
  for (const llama_logit_bias& bias : params.logit_bias)
    if (bias.token < 0 || bias.token >= vocab || std::isnan(bias.bias))
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("logit_bias: token {} (vocabulary: {}) or its bias is not valid",
                             bias.token, vocab));
  return {};
}

// The patterns as common_sampler_init makes them from the triggers.
struct Triggers {
  std::vector<std::string> patterns;
  std::vector<llama_token> tokens;
};

Triggers MakeTriggers(const common_params_sampling& params) {
  Triggers triggers;
  for (const common_grammar_trigger& trigger : params.grammar_triggers) {
    switch (trigger.type) {
      case COMMON_GRAMMAR_TRIGGER_TYPE_WORD:
        triggers.patterns.push_back(regex_escape(trigger.value));
        break;
      case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN: triggers.patterns.push_back(trigger.value); break;
      case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN_FULL: {
        const std::string& pattern = trigger.value;
        std::string anchored = "^$";
        if (!pattern.empty())
          anchored =
              (pattern.front() != '^' ? "^" : "") + pattern + (pattern.back() != '$' ? "$" : "");
        triggers.patterns.push_back(std::move(anchored));
        break;
      }
      case COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN: triggers.tokens.push_back(trigger.token); break;
    }
  }
  return triggers;
}

Result<SamplerPtr> MakeGrammar(const llama_vocab* vocab, const common_params_sampling& params) {
  const std::string& text = common_grammar_value(params.grammar);
  if (text.empty()) return SamplerPtr();
  SKIPPY_RETURN_IF_ERROR(CheckGrammar(text, vocab));
  ClearErrors();
  SamplerPtr grammar;
  if (params.grammar_lazy) {
    const Triggers triggers = MakeTriggers(params);
    std::vector<const char*> patterns;
    for (const std::string& pattern : triggers.patterns) patterns.push_back(pattern.c_str());
    grammar.reset(llama_sampler_init_grammar_lazy_patterns(
        vocab, text.c_str(), "root", patterns.data(), patterns.size(), triggers.tokens.data(),
        triggers.tokens.size()));
  } else {
    grammar.reset(llama_sampler_init_grammar(vocab, text.c_str(), "root"));
  }
  if (!grammar)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("grammar: does not parse: {}", ErrorLines()));
  return grammar;
}

// Tokens of the generation prompt that the template already put behind the prompt, as
// common_sampler_init takes them.
std::vector<llama_token> PrefillTokens(const llama_vocab* vocab,
                                       const std::string& generation_prompt) {
  std::vector<llama_token> prefill;
  if (generation_prompt.empty()) return prefill;
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  const auto tokens = common_tokenize(vocab, generation_prompt, false, true);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string piece = common_token_to_piece(vocab, tokens[i], true);
    // Some tokenizers put a space before the first special token.
    if (i == 0 && !piece.empty() && is_space(piece[0]) && !is_space(generation_prompt[0])) continue;
    prefill.push_back(tokens[i]);
  }
  return prefill;
}

SamplerPtr MakeReasoningBudget(const llama_vocab* vocab, const common_params_sampling& params,
                               const std::vector<llama_token>& prefill) {
  const bool wanted =
      params.grammar_lazy || params.reasoning_budget_tokens >= 0 || params.reasoning_control;
  if (params.reasoning_budget_start.empty() || params.reasoning_budget_end.empty() || !wanted)
    return nullptr;
  SamplerPtr budget(common_reasoning_budget_init(
      vocab, {params.reasoning_budget_start}, params.reasoning_budget_end,
      params.reasoning_budget_forced,
      params.reasoning_budget_tokens < 0 ? INT_MAX : params.reasoning_budget_tokens));
  for (const llama_token token : prefill) llama_sampler_accept(budget.get(), token);
  return budget;
}

// The k of a chain that begins with top-k, 0 for any other: such a chain need not see the rest of
// the vocabulary, which for 262,144 tokens saves most of sampling's time. Samplers that the
// parameters switch off are in the chain as empty ones, named with a question mark.
std::size_t LeadingTopK(llama_sampler* chain, const common_params_sampling& params) {
  for (int i = 0; i < llama_sampler_chain_n(chain); ++i) {
    const std::string_view name = llama_sampler_name(llama_sampler_chain_get(chain, i));
    if (name.starts_with('?')) continue;
    const bool usable = name == "top-k" && params.top_k > 0 && params.top_k <= kMaxLeadingTopK;
    return usable ? static_cast<std::size_t>(params.top_k) : 0;
  }
  return 0;
}

// common_sampler_sample's algorithm on logits that need not come from a context. It samples with
// the chain first and applies the grammar to the one token sampled; only when that is rejected, to
// the whole vocabulary.
class ChainSampler final : public LlamaSampler {
 public:
  ChainSampler(const llama_vocab* vocab, common_params_sampling params, common_sampler_ptr common,
               SamplerPtr grammar, SamplerPtr budget)
      : vocab_(vocab),
        params_(std::move(params)),
        common_(std::move(common)),
        chain_(common_sampler_get(common_.get())),
        grammar_(std::move(grammar)),
        budget_(std::move(budget)),
        top_k_(LeadingTopK(chain_, params_)) {}

  Status Prefill(const std::vector<llama_token>& prefill);

  Result<Token> Sample(std::span<const float> logits) override;
  void Accept(Token token) override;
  void AcceptPrompt(TokenSpan prompt) override;
  const llama_token_data_array& Candidates(bool sorted) override;
  std::uint32_t seed() const override { return common_sampler_get_seed(common_.get()); }

 private:
  void SetLogits(std::span<const float> logits);
  bool GrammarApplies() const;
  bool GrammarAdmits(llama_token token);
  Result<Token> Selected();
  Result<Token> SampleStep(std::span<const float> logits);
  void AcceptGrammar(llama_token token);
  void AcceptBudget(llama_token token, bool grammar_takes_it);

  const llama_vocab* vocab_;
  common_params_sampling params_;
  common_sampler_ptr common_;  // owns the chain
  llama_sampler* chain_;
  SamplerPtr grammar_;  // null: none
  SamplerPtr budget_;   // null: none
  std::size_t top_k_;   // 0: the chain needs every logit
  std::vector<llama_token_data> data_;
  llama_token_data_array candidates_{};
  std::optional<Token> sampled_;  // of this step: the chain's random numbers must not advance twice
  std::optional<Error>
      failure_;  // after a grammar refused an accepted token it must not be asked again
};

void ChainSampler::SetLogits(std::span<const float> logits) {
  data_.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i)
    data_[i] = {.id = static_cast<llama_token>(i), .logit = logits[i], .p = 0.0F};
  candidates_ = {.data = data_.data(), .size = data_.size(), .selected = -1, .sorted = false};
}

bool ChainSampler::GrammarApplies() const {
  if (!grammar_) return false;
  if (!budget_ || !params_.grammar_lazy) return true;
  const auto state = common_reasoning_budget_get_state(budget_.get());
  return state == REASONING_BUDGET_IDLE || state == REASONING_BUDGET_DONE;
}

bool ChainSampler::GrammarAdmits(llama_token token) {
  llama_token_data one{.id = token, .logit = 1.0F, .p = 0.0F};
  llama_token_data_array array{.data = &one, .size = 1, .selected = -1, .sorted = false};
  llama_sampler_apply(grammar_.get(), &array);
  return one.logit != -INFINITY;
}

Result<Token> ChainSampler::Selected() {
  if (candidates_.selected < 0 ||
      static_cast<std::size_t>(candidates_.selected) >= candidates_.size)
    return Err(ErrorCode::kInternal,
               "sampling chose no token: the logits are not numbers or all excluded");
  return candidates_.data[candidates_.selected].id;
}

Result<Token> ChainSampler::SampleStep(std::span<const float> logits) {
  if (top_k_ > 0 && !budget_) {
    TopK(logits, top_k_, data_);
    candidates_ = {.data = data_.data(), .size = data_.size(), .selected = -1, .sorted = true};
  } else {
    SetLogits(logits);
    if (budget_) llama_sampler_apply(budget_.get(), &candidates_);
  }
  llama_sampler_apply(chain_, &candidates_);
  SKIPPY_TRY(const Token first, Selected());
  if (!GrammarApplies() || GrammarAdmits(first)) return first;

  SetLogits(logits);
  if (budget_) llama_sampler_apply(budget_.get(), &candidates_);
  llama_sampler_apply(grammar_.get(), &candidates_);
  llama_sampler_apply(chain_, &candidates_);
  SKIPPY_TRY(const Token second, Selected());
  // When nothing fits the chain still picks something, and llama.cpp would abort on accepting it.
  if (!GrammarAdmits(second))
    return Err(ErrorCode::kInvalidArgument, "grammar: no token of the vocabulary fits here");
  return second;
}

Result<Token> ChainSampler::Sample(std::span<const float> logits) try {
  if (failure_) return tl::unexpected<Error>(*failure_);
  if (sampled_) return *sampled_;
  if (logits.size() != static_cast<std::size_t>(llama_vocab_n_tokens(vocab_)))
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("sampling: {} logits for a vocabulary of {}", logits.size(),
                           llama_vocab_n_tokens(vocab_)));
  SKIPPY_TRY(const Token token, SampleStep(logits));
  sampled_ = token;
  return token;
} catch (const std::exception& error) {
  return Err(ErrorCode::kInternal, fmt::format("sampling: {}", error.what()));
}

void ChainSampler::AcceptGrammar(llama_token token) {
  // llama.cpp aborts when a grammar that has not ended is given an end-of-generation token.
  if (llama_vocab_is_eog(vocab_, token) && !GrammarAdmits(token)) {
    failure_ =
        Error{ErrorCode::kInvalidArgument, "grammar: the text ended where the grammar does not"};
    return;
  }
  llama_sampler_accept(grammar_.get(), token);
}

void ChainSampler::AcceptBudget(llama_token token, bool grammar_takes_it) {
  llama_sampler_accept(budget_.get(), token);
  const bool done = common_reasoning_budget_get_state(budget_.get()) == REASONING_BUDGET_DONE;
  if (!grammar_ || grammar_takes_it || !done) return;
  // The end of the reasoning may be what the grammar waits for.
  const auto* end = common_reasoning_budget_get_end_match(budget_.get());
  if (end == nullptr) return;
  for (const llama_token end_token : *end) AcceptGrammar(end_token);
}

void ChainSampler::Accept(Token token) try {
  sampled_.reset();
  if (failure_) return;
  const bool grammar_takes_it = GrammarApplies();  // before the budget changes its state
  if (budget_) AcceptBudget(token, grammar_takes_it);
  if (grammar_takes_it) AcceptGrammar(token);
  llama_sampler_accept(chain_, token);
} catch (const std::exception& error) {
  failure_ = Error{ErrorCode::kInvalidArgument, fmt::format("grammar: {}", error.what())};
}

void ChainSampler::AcceptPrompt(TokenSpan prompt) {
  sampled_.reset();
  for (const Token token : prompt) llama_sampler_accept(chain_, token);
}

Status ChainSampler::Prefill(const std::vector<llama_token>& prefill) {
  if (!grammar_ || params_.grammar_lazy || !common_grammar_needs_prefill(params_.grammar))
    return {};
  for (const llama_token token : prefill) {
    AcceptGrammar(token);
    if (failure_) return tl::unexpected<Error>(*failure_);
  }
  return {};
}

const llama_token_data_array& ChainSampler::Candidates(bool sorted) {
  if (!sorted || candidates_.sorted || candidates_.selected < 0) return candidates_;
  const llama_token selected = candidates_.data[candidates_.selected].id;
  std::sort(candidates_.data, candidates_.data + candidates_.size,
            [](const llama_token_data& a, const llama_token_data& b) { return a.p > b.p; });
  for (std::size_t i = 0; i < candidates_.size; ++i)
    if (candidates_.data[i].id == selected) candidates_.selected = static_cast<std::int64_t>(i);
  candidates_.sorted = true;
  return candidates_;
}

}  // namespace

Result<std::unique_ptr<LlamaSampler>> MakeSampler(const Model& model,
                                                  const common_params_sampling& params) try {
  InitialiseBackend();
  SKIPPY_RETURN_IF_ERROR(CheckParams(params, llama_vocab_n_tokens(model.vocab())));
  SKIPPY_TRY(SamplerPtr grammar, MakeGrammar(model.vocab(), params));
  const auto prefill = PrefillTokens(model.vocab(), params.generation_prompt);
  SamplerPtr budget = MakeReasoningBudget(model.vocab(), params, prefill);
  // The chain is common's own; grammar and budget are ours, since common gives no access to its.
  common_params_sampling chain_params = params;
  chain_params.grammar = {};
  chain_params.grammar_lazy = false;
  chain_params.grammar_triggers.clear();
  chain_params.generation_prompt.clear();
  chain_params.reasoning_budget_start.clear();
  chain_params.backend_sampling = false;
  chain_params.no_perf = true;
  // One seed for all samplers of the chain; left to llama.cpp, each asks the random device.
  while (chain_params.seed == LLAMA_DEFAULT_SEED)
    chain_params.seed = static_cast<std::uint32_t>(RandomBits());
  common_sampler_ptr common(common_sampler_init(model.raw(), chain_params));
  auto sampler = std::make_unique<ChainSampler>(model.vocab(), params, std::move(common),
                                                std::move(grammar), std::move(budget));
  SKIPPY_RETURN_IF_ERROR(sampler->Prefill(prefill));
  return std::unique_ptr<LlamaSampler>(std::move(sampler));
} catch (const std::exception& error) {
  return Err(ErrorCode::kInvalidArgument, fmt::format("sampling: {}", error.what()));
}

}  // namespace skippy::llama
