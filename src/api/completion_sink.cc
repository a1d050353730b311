#include "api/completion_sink.h"

#include <algorithm>
#include <utility>

#include "api/token_probs.h"
#include "common.h"

namespace skippy::api {
namespace {

// Deeper JSON than this in an answer would have the recursive parser of answers run out of stack.
constexpr std::size_t kMaxAnswerNesting = 500;

std::int64_t Micros(double milliseconds) {
  return static_cast<std::int64_t>(std::max(0.0, milliseconds) * 1000.0);
}

}  // namespace

server_slot_stats StatsOf(const engine::GenerationReport& report) {
  server_slot_stats stats;
  stats.n_prompt_cached = report.prompt.cached_tokens;
  stats.n_prompt_processed = report.prompt.evaluated_tokens;
  stats.n_gen = report.generated_tokens;
  stats.t_start = 1;  // any time but 0, which means "never started"
  stats.t_prompt_last = stats.t_start + Micros(report.prompt.prompt_ms);
  if (report.generated_tokens > 0)
    stats.t_gen_last = stats.t_prompt_last + Micros(report.decode_ms);
  return stats;
}

CompletionSink::CompletionSink(SinkOptions options)
    : options_(std::move(options)), text_(options_.params.antiprompt) {}

void CompletionSink::OnPromptProgress(const engine::PromptReport& report, std::uint32_t processed) {
  prompt_ = report;
  if (!begun_) {
    begun_ = true;
    admitted_ = options_.clock->Now();
    if (options_.params.stream) {
      options_.mailbox->Push({.kind = SinkEvent::Kind::kBegin, .choice = options_.choice});
    }
  }
  if (options_.params.stream && options_.params.return_progress) SendPartial({}, true, processed);
}

std::string CompletionSink::Piece(Token token) const {
  const bool special = options_.params.sampling.preserved_tokens.contains(token);
  return common_token_to_piece(options_.vocab, token, special);
}

bool CompletionSink::GuardNesting(const std::string& piece) {
  if (options_.params.chat_parser_params.parser.empty()) return true;
  for (const char c : piece) {
    if (c == '{' || c == '[') ++nesting_;
    if ((c == '}' || c == ']') && nesting_ > 0) --nesting_;
  }
  return nesting_ <= kMaxAnswerNesting;
}

void CompletionSink::AddProbabilities(completion_token_output& output,
                                      std::span<const float> logits) {
  const auto wanted = static_cast<std::size_t>(std::max(0, options_.params.sampling.n_probs));
  if (wanted == 0) return;
  const auto add = [&](Token token, float probability) {
    output.probs.push_back(
        {token, common_token_to_piece(options_.vocab, token, false), probability});
  };
  if (options_.params.post_sampling_probs && options_.sampler != nullptr) {
    const llama_token_data_array& candidates = options_.sampler->Candidates(true);
    for (std::size_t i = 0; i < candidates.size; ++i) {
      if (candidates.data[i].id == output.tok) output.prob = candidates.data[i].p;
      // Samplers cut candidates by leaving them out or by a probability of 0; both read the same
      // here.
      if (i < wanted && candidates.data[i].p > 0) add(candidates.data[i].id, candidates.data[i].p);
    }
    return;
  }
  const TopProbs probs = ComputeTopProbs(logits, output.tok, wanted);
  output.prob = probs.sampled;
  for (const TokenProb& prob : probs.top) add(prob.token, prob.probability);
}

engine::GenerationSink::Next CompletionSink::OnToken(Token token, std::span<const float> logits) {
  last_token_ = options_.clock->Now();
  if (generated_++ == 0) first_token_ = last_token_;
  const bool end = llama_vocab_is_eog(options_.vocab, token);

  completion_token_output output;
  output.tok = token;
  output.prob = 1;
  const std::string piece = Piece(token);
  AddProbabilities(output, logits);
  if (options_.params.return_tokens) tokens_.push_back(token);

  const TextAssembler::Step step = text_.Append(piece, end);
  if (end) {
    stop_ = STOP_TYPE_EOS;
  } else if (step.stopped) {
    stop_ = STOP_TYPE_WORD;
  } else if (text_.IndentedTooLittle(
                 static_cast<std::size_t>(std::max(0, options_.params.n_indent)))) {
    stop_ = STOP_TYPE_LIMIT;
  } else if (!GuardNesting(piece)) {
    stop_ = STOP_TYPE_LIMIT;
  } else if (const std::int64_t limit = options_.params.t_max_predict_ms;
             limit > 0 && text_.has_new_line() && piece.find('\n') != std::string::npos &&
             (last_token_.value - first_token_.value) / 1000 > limit) {
    stop_ = STOP_TYPE_LIMIT;
  }

  output.text_to_send = piece;
  if (options_.params.sampling.n_probs > 0 && !options_.params.stream)
    probabilities_.push_back(output);
  if (options_.params.stream && (step.complete || generated_ == 1)) {
    completion_token_output sent = std::move(output);
    sent.text_to_send = step.send;
    SendPartial(sent, false, 0);
  }
  return stop_ == STOP_TYPE_NONE ? Next::kContinue : Next::kStop;
}

server_slot_stats CompletionSink::RunningStats() const {
  const auto milliseconds = [](Tick from, Tick to) {
    return static_cast<double>(to.value - from.value) / 1000;
  };
  engine::GenerationReport report;
  report.prompt = prompt_;
  // Until the first token is there the prompt is still being evaluated; before its first chunk no
  // time counts.
  const Tick prompt_end = generated_ > 0 ? first_token_ : options_.clock->Now();
  if (generated_ > 0 || prompt_.evaluated_tokens > 0) {
    report.prompt.prompt_ms = milliseconds(admitted_, prompt_end);
  }
  report.generated_tokens = generated_;
  report.decode_ms = generated_ > 0 ? milliseconds(first_token_, last_token_) : 0;
  return StatsOf(report);
}

void CompletionSink::SendPartial(const completion_token_output& output, bool is_progress,
                                 std::uint32_t processed) {
  const task_params& params = options_.params;
  auto partial = std::make_unique<server_task_result_cmpl_partial>();
  partial->index = options_.choice;
  if (is_progress) {
    partial->is_progress = true;
    partial->progress.total = static_cast<std::int32_t>(options_.prompt_tokens);
    partial->progress.cache = static_cast<std::int32_t>(prompt_.cached_tokens);
    partial->progress.processed = static_cast<std::int32_t>(processed);
    partial->progress.time_ms = (options_.clock->Now().value - admitted_.value) / 1000;
  } else {
    partial->tokens = {output.tok};
    partial_sent_ = true;
  }
  partial->content = output.text_to_send;
  partial->n_decoded = static_cast<std::int32_t>(generated_);
  partial->n_prompt_tokens = static_cast<std::int32_t>(options_.prompt_tokens);
  partial->n_prompt_tokens_cache = static_cast<std::int32_t>(prompt_.cached_tokens);
  partial->post_sampling_probs = params.post_sampling_probs;
  partial->verbose = params.verbose;
  partial->res_type = params.res_type;
  partial->oaicompat_model = params.oaicompat_model;
  partial->oaicompat_cmpl_id = params.oaicompat_cmpl_id;
  if (params.sampling.n_probs > 0) {
    partial->prob_output = output;
    if (!is_progress) partial->prob_output.text_to_send = Piece(output.tok);
  }
  if (params.timings_per_token) partial->stats = RunningStats();
  options_.mailbox->Push(
      {.kind = SinkEvent::Kind::kPartial, .choice = options_.choice, .result = std::move(partial)});
}

void CompletionSink::OnFinish(const engine::GenerationReport& report) {
  prompt_ = report.prompt;
  if (options_.on_finish) options_.on_finish(report);
  const bool failed = report.finish == engine::FinishReason::kError ||
                      report.finish == engine::FinishReason::kCancelled;
  if (failed) {
    options_.mailbox->Push(
        {.kind = SinkEvent::Kind::kFailed, .choice = options_.choice, .report = report});
    return;
  }
  if (stop_ == STOP_TYPE_NONE) stop_ = STOP_TYPE_LIMIT;
  if (options_.params.stream) {
    // Text held back as a possible stop string turned out to be text. And the event APIs announce
    // the message with its first part, so there is one even when nothing was generated.
    completion_token_output rest;
    rest.tok = LLAMA_TOKEN_NULL;
    rest.text_to_send = stop_ == STOP_TYPE_WORD ? std::string() : text_.Flush();
    const bool announces = options_.params.res_type == TASK_RESPONSE_TYPE_ANTHROPIC ||
                           options_.params.res_type == TASK_RESPONSE_TYPE_OAI_RESP;
    if (!rest.text_to_send.empty() || (announces && !partial_sent_)) {
      const std::uint32_t counted = generated_;
      if (!partial_sent_) generated_ = 1;
      const std::int32_t probs = std::exchange(options_.params.sampling.n_probs, 0);
      SendPartial(rest, false, 0);
      options_.params.sampling.n_probs = probs;
      generated_ = counted;
    }
  }
  SendFinal(report);
}

void CompletionSink::SendFinal(const engine::GenerationReport& report) {
  const task_params& params = options_.params;
  auto final_result = std::make_unique<server_task_result_cmpl_final>();
  final_result->index = options_.choice;
  final_result->id_slot = static_cast<std::int32_t>(report.lane.value);
  if (!params.stream) {
    final_result->content = text_.text();
    final_result->tokens = std::move(tokens_);
  }
  final_result->stats = StatsOf(report);
  final_result->prompt = std::move(options_.prompt_text);
  final_result->response_fields = params.response_fields;
  final_result->truncated = stop_ == STOP_TYPE_LIMIT && generated_ >= options_.room;
  final_result->n_decoded = static_cast<std::int32_t>(generated_);
  final_result->n_prompt_tokens = static_cast<std::int32_t>(options_.prompt_tokens);
  final_result->n_prompt_tokens_cache = static_cast<std::int32_t>(report.prompt.cached_tokens);
  final_result->n_tokens_cached =
      static_cast<std::int32_t>(options_.prompt_tokens + (generated_ > 0 ? generated_ - 1 : 0));
  final_result->has_new_line = text_.has_new_line();
  final_result->stopping_word = text_.stopping_word();
  final_result->stop = stop_;
  final_result->post_sampling_probs = params.post_sampling_probs;
  final_result->verbose = params.verbose;
  final_result->stream = params.stream;
  final_result->include_usage = params.include_usage;
  final_result->res_type = params.res_type;
  final_result->oaicompat_model = params.oaicompat_model;
  final_result->oaicompat_cmpl_id = params.oaicompat_cmpl_id;
  if (stop_ == STOP_TYPE_WORD && !probabilities_.empty()) {
    // The tokens of the stop string are not part of the answer.
    const std::size_t dropped =
        common_tokenize(options_.vocab, text_.stopping_word(), false).size();
    probabilities_.resize(probabilities_.size() - std::min(dropped, probabilities_.size()));
  }
  final_result->probs_output = std::move(probabilities_);
  final_result->generation_params = params;
  options_.mailbox->Push({.kind = SinkEvent::Kind::kFinal,
                          .choice = options_.choice,
                          .result = std::move(final_result),
                          .report = report});
}

}  // namespace skippy::api
