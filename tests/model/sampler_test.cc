// Our sampler against llama.cpp's common_sampler_sample: the same tokens for the same logits and
// seed.
#include "llama/sampler.h"

#include <common.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <llama.h>
#include <sampling.h>

#include <cmath>
#include <limits>
#include <memory>

#include "model/harness.h"

namespace skippy::llama {
namespace {

using model_test::LoadModel;
using model_test::ModelPath;

constexpr int kSteps = 14;
constexpr const char* kPrompt = "The list of animals: {\"animals\": [\"cat\", \"dog\",";

struct ContextFree {
  void operator()(llama_context* context) const { llama_free(context); }
};

// One model and one context for all tests; each test rewinds to the end of the prompt.
class SamplerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    model_ = LoadModel(ModelPath("smollm2-135m-instruct-q4_1.gguf")).release();
    ASSERT_NE(model_, nullptr);
    llama_context_params params = llama_context_default_params();
    params.n_ctx = 512;
    params.n_threads = params.n_threads_batch = 1;
    context_ = llama_init_from_model(model_->raw(), params);
    prompt_ = new std::vector<llama_token>(common_tokenize(model_->vocab(), kPrompt, true, true));
  }
  static void TearDownTestSuite() {
    llama_free(context_);
    delete model_;
    delete prompt_;
  }

  // Leaves the context with the prompt decoded; logits of its last token at index -1.
  void Rewind() {
    llama_memory_clear(llama_get_memory(context_), false);
    ASSERT_EQ(llama_decode(context_,
                           llama_batch_get_one(prompt_->data(), static_cast<int>(prompt_->size()))),
              0);
  }
  std::span<const float> ContextLogits() const {
    return {llama_get_logits_ith(context_, -1),
            static_cast<std::size_t>(llama_vocab_n_tokens(model_->vocab()))};
  }

  // Samples kSteps tokens with both and expects the same ones; returns the text.
  std::string ExpectSameTokens(const common_params_sampling& params) {
    Rewind();
    auto ours = MakeSampler(*model_, params);
    EXPECT_TRUE(ours) << ours.error().message;
    common_params_sampling theirs_params = params;
    const common_sampler_ptr theirs(common_sampler_init(model_->raw(), theirs_params));
    for (const llama_token token : *prompt_) common_sampler_accept(theirs.get(), token, false);
    (*ours)->AcceptPrompt(*prompt_);
    EXPECT_EQ((*ours)->seed(), common_sampler_get_seed(theirs.get()));
    std::string text;
    for (int step = 0; ours && step < kSteps; ++step) {
      const std::vector<float> stored(ContextLogits().begin(), ContextLogits().end());
      const llama_token expected = common_sampler_sample(theirs.get(), context_, -1);
      const auto token = (*ours)->Sample(stored);
      EXPECT_TRUE(token) << token.error().message;
      if (!token) break;
      EXPECT_EQ(*token, expected) << "step " << step;
      ExpectSameCandidates((*ours)->Candidates(true),
                           *common_sampler_get_candidates(theirs.get(), true));
      (*ours)->Accept(*token);
      common_sampler_accept(theirs.get(), expected, true);
      if (llama_vocab_is_eog(model_->vocab(), expected)) break;
      text += common_token_to_piece(model_->vocab(), expected, true);
      llama_token next = expected;
      EXPECT_EQ(llama_decode(context_, llama_batch_get_one(&next, 1)), 0);
    }
    return text;
  }

  static void ExpectSameCandidates(const llama_token_data_array& a,
                                   const llama_token_data_array& b) {
    ASSERT_EQ(a.size, b.size);
    EXPECT_EQ(a.selected, b.selected);
    for (std::size_t i = 0; i < std::min<std::size_t>(a.size, 10); ++i) {
      EXPECT_EQ(a.data[i].id, b.data[i].id);
      EXPECT_EQ(a.data[i].p, b.data[i].p);
    }
  }

  static common_grammar UserGrammar(const std::string& text) {
    return {COMMON_GRAMMAR_TYPE_USER, text};
  }

  static Model* model_;
  static llama_context* context_;
  static std::vector<llama_token>* prompt_;
};

Model* SamplerTest::model_ = nullptr;
llama_context* SamplerTest::context_ = nullptr;
std::vector<llama_token>* SamplerTest::prompt_ = nullptr;

common_params_sampling Seeded(std::uint32_t seed) {
  common_params_sampling params;
  params.seed = seed;
  return params;
}

TEST_F(SamplerTest, GreedyTokensAreThoseOfCommon) {
  common_params_sampling params = Seeded(1);
  params.temp = 0.0F;
  EXPECT_FALSE(ExpectSameTokens(params).empty());
}

TEST_F(SamplerTest, SeededTokensAreThoseOfCommon) {
  const std::string first = ExpectSameTokens(Seeded(42));
  EXPECT_EQ(ExpectSameTokens(Seeded(42)), first) << "the same seed";
  EXPECT_NE(ExpectSameTokens(Seeded(43)), first) << "another seed";
}

TEST_F(SamplerTest, PenaltiesAndDryAreThoseOfCommon) {
  common_params_sampling params = Seeded(3);
  params.penalty_repeat = 1.3F;
  params.penalty_freq = 0.5F;
  params.penalty_present = 0.25F;
  params.dry_multiplier = 0.8F;
  ExpectSameTokens(params);
}

TEST_F(SamplerTest, LogitBiasIsThatOfCommon) {
  common_params_sampling params = Seeded(4);
  params.temp = 0.0F;
  const std::string plain = ExpectSameTokens(params);
  const auto banned = common_tokenize(model_->vocab(), plain, false, false);
  params.logit_bias.push_back({banned.front(), -INFINITY});
  EXPECT_NE(ExpectSameTokens(params), plain);
}

TEST_F(SamplerTest, OtherSamplersAreThoseOfCommon) {
  for (const int mirostat : {1, 2}) {
    common_params_sampling params = Seeded(5);
    params.mirostat = mirostat;
    ExpectSameTokens(params);
  }
  common_params_sampling params = Seeded(6);
  params.top_n_sigma = 1.5F;
  params.typ_p = 0.9F;
  params.xtc_probability = 0.5F;
  params.dynatemp_range = 0.4F;
  ExpectSameTokens(params);
  params.samplers = {COMMON_SAMPLER_TYPE_TOP_K, COMMON_SAMPLER_TYPE_ADAPTIVE_P};
  params.adaptive_target = 0.3F;
  ExpectSameTokens(params);
}

TEST_F(SamplerTest, GrammarHoldsTheTextAsInCommon) {
  common_params_sampling params = Seeded(7);
  params.grammar = UserGrammar("root ::= [0-9]+ \".\" [0-9]{2} \"!\"");
  const std::string text = ExpectSameTokens(params);
  ASSERT_GE(text.size(), 4U);
  EXPECT_TRUE(std::isdigit(static_cast<unsigned char>(text.front()))) << text;
}

TEST_F(SamplerTest, LazyGrammarWaitsForItsTrigger) {
  common_params_sampling params = Seeded(8);
  params.temp = 0.0F;
  const std::string plain = ExpectSameTokens(params);
  params.grammar = UserGrammar("root ::= [a-z \\\"]+ \"zzz\"");
  params.grammar_lazy = true;
  params.grammar_triggers = {{COMMON_GRAMMAR_TRIGGER_TYPE_WORD, "neverseen", LLAMA_TOKEN_NULL}};
  EXPECT_EQ(ExpectSameTokens(params), plain) << "not triggered";
  params.grammar_triggers = {
      {COMMON_GRAMMAR_TRIGGER_TYPE_WORD, plain.substr(0, 1), LLAMA_TOKEN_NULL}};
  ExpectSameTokens(params);
  params.grammar_triggers = {
      {COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN_FULL, ".*(\").*", LLAMA_TOKEN_NULL},
      {COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN, "", 5}};
  ExpectSameTokens(params);
}

TEST_F(SamplerTest, GrammarIsAdvancedOverTheGenerationPrompt) {
  common_params_sampling params = Seeded(9);
  params.grammar = {COMMON_GRAMMAR_TYPE_OUTPUT_FORMAT, "root ::= \"<think>\" [a-z ]+ \"</think>\""};
  params.generation_prompt = "<think>";
  const std::string text = ExpectSameTokens(params);
  EXPECT_EQ(text.find('<'), std::string::npos) << text;
}

TEST_F(SamplerTest, ReasoningBudgetForcesItsEndAsInCommon) {
  common_params_sampling params = Seeded(10);
  params.temp = 0.0F;
  params.generation_prompt = "<think>";
  params.reasoning_budget_start = common_tokenize(model_->vocab(), "<think>", false, true);
  params.reasoning_budget_end = {common_tokenize(model_->vocab(), "</think>", false, true)};
  params.reasoning_budget_forced = params.reasoning_budget_end.front();
  params.reasoning_budget_tokens = 5;
  EXPECT_NE(ExpectSameTokens(params).find("</think>"), std::string::npos);
  // With a lazy grammar, which must not see the reasoning.
  params.grammar = UserGrammar("root ::= \"</think>\" [0-9]+");
  params.grammar_lazy = true;
  params.grammar_triggers = {{COMMON_GRAMMAR_TRIGGER_TYPE_WORD, "</think>", LLAMA_TOKEN_NULL}};
  ExpectSameTokens(params);
}

TEST_F(SamplerTest, SamplingTwiceInOneStepGivesTheSameToken) {
  Rewind();
  auto sampler = MakeSampler(*model_, Seeded(11));
  ASSERT_TRUE(sampler) << sampler.error().message;
  for (int step = 0; step < 10; ++step) {
    const auto first = (*sampler)->Sample(ContextLogits());
    const auto second = (*sampler)->Sample(ContextLogits());
    ASSERT_TRUE(first && second);
    EXPECT_EQ(*first, *second);
    (*sampler)->Accept(*first);
  }
}

TEST_F(SamplerTest, BadGrammarsAreErrors) {
  const auto code = [&](const std::string& grammar) {
    common_params_sampling params;
    params.grammar = UserGrammar(grammar);
    const auto sampler = MakeSampler(*model_, params);
    return sampler ? std::string("accepted") : ErrorCodeName(sampler.error().code);
  };
  EXPECT_EQ(code("%llguidance {}\nstart: /a/"), std::string("unsupported"));
  EXPECT_EQ(code("root ::= ("), "invalid_argument");
  EXPECT_EQ(code("root ::= other"), "invalid_argument");
  EXPECT_EQ(code("start ::= \"a\""), "invalid_argument") << "no root";
  EXPECT_EQ(code("root ::= root \"a\""), "invalid_argument") << "left recursion";
  EXPECT_EQ(code("root ::= " + std::string(200000, '(') + "\"a\"" + std::string(200000, ')')),
            "invalid_argument");
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 300000; ++i) chain += fmt::format("r{} ::= r{}\n", i, i + 1);
  EXPECT_EQ(code(chain), "invalid_argument") << "a chain of rules that exhausts the stack";
  std::string ladder = "root ::= r0\n";
  for (int i = 0; i < 60; ++i) ladder += fmt::format("r{} ::= r{} | r{} \"x\"\n", i, i + 1, i + 1);
  EXPECT_EQ(code(ladder + "r60 ::= \"a\"\n"), "invalid_argument") << "a search of 2^60 paths";
  common_params_sampling params;
  params.grammar = UserGrammar("root ::= \"a\"");
  params.grammar_lazy = true;
  params.grammar_triggers = {{COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN, "(unclosed", LLAMA_TOKEN_NULL}};
  EXPECT_FALSE(MakeSampler(*model_, params)) << "a trigger that is no regular expression";
}

TEST_F(SamplerTest, ADeepGrammarWithinTheLimitsWorks) {
  common_params_sampling params = Seeded(12);
  params.grammar =
      UserGrammar("root ::= " + std::string(200, '(') + "[a-z]+" + std::string(200, ')'));
  ExpectSameTokens(params);
}

TEST_F(SamplerTest, AGrammarThatNothingFitsIsAnErrorNotAnAbort) {
  Rewind();
  common_params_sampling params = Seeded(13);
  params.grammar = UserGrammar("root ::= \"a\"");
  auto sampler = MakeSampler(*model_, params);
  ASSERT_TRUE(sampler) << sampler.error().message;
  const llama_token end = llama_vocab_eos(model_->vocab());
  (*sampler)->Accept(end);  // before the grammar has ended: llama.cpp would abort
  const auto refused = (*sampler)->Sample(ContextLogits());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);

  auto other = MakeSampler(*model_, params);
  ASSERT_TRUE(other);
  (*other)->Accept(
      common_tokenize(model_->vocab(), "zebra", false, false).front());  // does not fit
  EXPECT_FALSE((*other)->Sample(ContextLogits()));

  params.grammar = UserGrammar("root ::= \"a\"");
  params.logit_bias = {{end, -INFINITY}};
  for (const auto& piece : {"a", " a"})
    params.logit_bias.push_back(
        {common_tokenize(model_->vocab(), piece, false, false).front(), -INFINITY});
  auto blocked = MakeSampler(*model_, params);
  ASSERT_TRUE(blocked);
  const auto nothing = (*blocked)->Sample(ContextLogits());
  ASSERT_FALSE(nothing);
  EXPECT_NE(nothing.error().message.find("grammar"), std::string::npos);
}

TEST_F(SamplerTest, ParametersOutOfRangeAreNamed) {
  const auto message = [&](auto change) {
    common_params_sampling params;
    change(params);
    const auto sampler = MakeSampler(*model_, params);
    return sampler ? std::string("accepted") : sampler.error().message;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  using P = common_params_sampling;
  EXPECT_NE(message([&](P& p) { p.temp = nan; }).find("temperature"), std::string::npos);
  EXPECT_NE(message([&](P& p) { p.top_p = nan; }).find("top_p"), std::string::npos);
  EXPECT_NE(message([&](P& p) { p.penalty_repeat = 0.0F; }).find("penalty_repeat"),
            std::string::npos);
  EXPECT_NE(message([&](P& p) { p.mirostat = 7; }).find("mirostat"), std::string::npos);
  EXPECT_NE(message([&](P& p) { p.penalty_last_n = 2000000000; }).find("repeat_last_n"),
            std::string::npos);
  EXPECT_NE(message([&](P& p) {
              p.logit_bias = {{1 << 30, 1.0F}};
            }).find("logit_bias"),
            std::string::npos);
}

TEST_F(SamplerTest, LogitsThatAreNotNumbersAreAnError) {
  const auto vocab = static_cast<std::size_t>(llama_vocab_n_tokens(model_->vocab()));
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    auto sampler = MakeSampler(*model_, Seeded(14));
    ASSERT_TRUE(sampler);
    const auto token = (*sampler)->Sample(std::vector<float>(vocab, value));
    EXPECT_TRUE(!token || static_cast<std::size_t>(*token) < vocab) << value;
  }
  auto sampler = MakeSampler(*model_, Seeded(15));
  ASSERT_TRUE(sampler);
  EXPECT_FALSE((*sampler)->Sample(std::vector<float>(3, 0.0F))) << "too few logits";
}

}  // namespace
}  // namespace skippy::llama
