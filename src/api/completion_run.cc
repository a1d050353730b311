#include "api/completion_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "api/completion_sink.h"
#include "api/mailbox.h"
#include "api/next_turn.h"
#include "api/response_json.h"
#include "llama/sampler.h"
#include "server-task.h"
#include "skippy/random.h"

namespace skippy::api {
namespace {

constexpr std::chrono::milliseconds kPoll{50};

// The requests of one HTTP request on their way through the engine. Destroying it cancels what
// still runs.
class Run {
 public:
  Run(ServerState& state, CompletionPlan plan, const HttpRequest& request)
      : state_(state),
        plan_(std::move(plan)),
        closed_(request.closed),
        tenant_(TenantSalt(request.api_key, plan_.cache_salt, state.settings.tenants)),
        adapters_(plan_.adapters ? *plan_.adapters : state.DefaultAdapters()) {
    plan_.params.oaicompat_cmpl_id =
        fmt::format("chatcmpl-{:016x}{:016x}", RandomBits(), RandomBits());
  }
  ~Run() {
    // Last, so that the client has its answer (streamed ones at least) before the template is
    // rendered once more.
    if (!answer_.is_null()) {
      auto prefix = NextTurnPrefix(state_, *plan_.chat, answer_);
      if (prefix) EvaluateAhead(state_, std::move(*prefix), tenant_, adapters_);
    }
    mailbox_->Abandon();
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      if (!finished_[i]) state_.engine.Cancel(ids_[i]);
    }
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  ApiStatus Start(const RunOptions& options);
  // The next event of any choice. No value: the client has gone. `begun`: the stream's headers are
  // out, so that a long silence gives a kPing.
  std::optional<SinkEvent> Wait(bool begun);
  // An event in the form that goes out (null: nothing to send); final ones are counted.
  Json Format(SinkEvent& event);
  ApiError FailureOf(const SinkEvent& event) const;

  bool done() const { return finished_count_ == finished_.size(); }
  std::size_t size() const { return finished_.size(); }
  const task_params& params() const { return plan_.params; }
  const Usage& usage() const { return usage_; }
  Dialect dialect() const {
    return plan_.params.res_type == TASK_RESPONSE_TYPE_ANTHROPIC ? Dialect::kAnthropic
                                                                 : Dialect::kOpenAi;
  }

 private:
  bool SilentForLong() const;
  ApiStatus Submit(std::size_t prompt, std::uint32_t choice, const RunOptions& options);
  void Count(const SinkEvent& event);
  void Update(SinkEvent& event);
  void KeepAnswer(const SinkEvent& event);

  ServerState& state_;
  CompletionPlan plan_;
  std::function<bool()> closed_;
  std::string tenant_;
  ServerState::Adapters adapters_;
  std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  std::vector<RequestId> ids_;
  std::vector<bool> finished_;
  std::size_t finished_count_ = 0;
  std::vector<task_result_state> texts_;
  Usage usage_;
  Json usage_chunk_;  // of the first of several streamed choices
  Json answer_;       // the message, where the turn after it is to be evaluated ahead
  Tick last_sent_{};
};

// Who lists response_fields gets those and no other.
bool WantsCacheReport(const task_params& params) {
  const std::vector<std::string>& fields = params.response_fields;
  return params.res_type != TASK_RESPONSE_TYPE_NONE || fields.empty() ||
         std::find(fields.begin(), fields.end(), "skippy") != fields.end();
}

ApiStatus Run::Submit(std::size_t prompt_index, std::uint32_t choice, const RunOptions& options) {
  const PromptPlan& prompt = plan_.prompts[prompt_index];
  const std::size_t index = prompt_index * plan_.choices + choice;
  const auto prompt_tokens = static_cast<std::uint32_t>(prompt.tokens.size());
  const std::uint32_t room = state_.info.context - prompt_tokens;

  task_params params = plan_.params;
  if (choice > 0 && params.sampling.seed != LLAMA_DEFAULT_SEED) params.sampling.seed += choice;
  auto sampler = llama::MakeSampler(state_.model, params.sampling);
  if (!sampler) return tl::unexpected<ApiError>(FromError(sampler.error()));
  (*sampler)->AcceptPrompt(prompt.tokens);

  SinkOptions sink{.vocab = state_.vocab,
                   .clock = &state_.clock,
                   .params = params,
                   .choice = index,
                   .prompt_tokens = prompt_tokens,
                   .room = room,
                   .prompt_text = {},
                   .sampler = sampler->get(),
                   .mailbox = mailbox_,
                   .on_finish = {}};
  if (params.res_type == TASK_RESPONSE_TYPE_NONE || params.verbose) {
    sink.prompt_text = tokens_to_str(state_.vocab, prompt.tokens);
  }
  RequestFacts facts{.id = params.oaicompat_cmpl_id,
                     .endpoint = options.endpoint,
                     .tenant = tenant_.substr(0, 12),
                     .choice = index,
                     .stream = params.stream};
  sink.on_finish = [telemetry = &state_.telemetry, log = options.log,
                    facts = std::move(facts)](const engine::GenerationReport& report) {
    telemetry->Record(report);
    if (log != nullptr) log->Append(RequestLine(facts, report));
  };

  engine::GenerateRequest request;
  request.prompt = prompt.tokens;
  request.message_starts = prompt.message_starts;
  request.tenant_salt = tenant_;
  request.adapters = adapters_;
  request.use_cache = params.cache_prompt;
  request.allow_decoded_result = params.cache_prompt;
  request.max_tokens =
      params.n_predict < 0 ? room : std::min(room, static_cast<std::uint32_t>(params.n_predict));
  request.sampler = std::move(*sampler);
  request.sink = std::make_shared<CompletionSink>(std::move(sink));
  auto id = state_.engine.Submit(std::move(request));
  if (!id) {
    if (state_.stopping)
      return tl::unexpected<ApiError>(Unavailable("the server is shutting down"));
    return tl::unexpected<ApiError>(FromError(id.error()));
  }
  ids_.push_back(*id);
  finished_.push_back(false);
  texts_.emplace_back(params.chat_parser_params);
  return {};
}

ApiStatus Run::Start(const RunOptions& options) {
  last_sent_ = state_.clock.Now();
  for (std::size_t prompt = 0; prompt < plan_.prompts.size(); ++prompt) {
    usage_.prompt_tokens += plan_.prompts[prompt].tokens.size();
    for (std::uint32_t choice = 0; choice < plan_.choices; ++choice) {
      API_RETURN_IF_ERROR(Guarded([&] { return Submit(prompt, choice, options); }));
    }
  }
  return {};
}

bool Run::SilentForLong() const {
  const std::int64_t interval = params().sse_ping_interval;
  return interval > 0 && state_.clock.Now().value - last_sent_.value >= interval * 1'000'000;
}

std::optional<SinkEvent> Run::Wait(bool begun) {
  while (true) {
    if (auto event = mailbox_->Pop(kPoll)) {
      Count(*event);
      return event;
    }
    if (closed_()) return std::nullopt;
    if (begun && SilentForLong()) {
      last_sent_ = state_.clock.Now();
      return SinkEvent{.kind = SinkEvent::Kind::kPing};
    }
  }
}

void Run::Count(const SinkEvent& event) {
  if (event.kind != SinkEvent::Kind::kFinal && event.kind != SinkEvent::Kind::kFailed) return;
  if (finished_[event.choice]) return;
  finished_[event.choice] = true;
  ++finished_count_;
  usage_.completion_tokens += event.report.generated_tokens;
  // Choices of one prompt share it; what the first of them found cached is what the client saved.
  if (event.choice % plan_.choices == 0) usage_.cached_tokens += event.report.prompt.cached_tokens;
}

// Answers that do not parse as the template's format (cut off by max_tokens, or a model that went
// its own way) are given out as the text they are.
void Run::Update(SinkEvent& event) {
  task_result_state& text = texts_[event.choice];
  try {
    event.result->update(text);
  } catch (const std::exception&) {
    if (auto* final_result = dynamic_cast<server_task_result_cmpl_final*>(event.result.get())) {
      final_result->is_updated = true;
      final_result->oaicompat_msg = text.chat_msg;
      if (final_result->oaicompat_msg.empty()) {
        final_result->oaicompat_msg.role = "assistant";
        final_result->oaicompat_msg.content = text.generated_text;
      }
      final_result->oaicompat_msg_diffs.clear();
      final_result->oai_resp_id = text.oai_resp_id;
      final_result->oai_resp_reasoning_id = text.oai_resp_reasoning_id;
      final_result->oai_resp_message_id = text.oai_resp_message_id;
    } else if (auto* partial = dynamic_cast<server_task_result_cmpl_partial*>(event.result.get())) {
      partial->is_updated = true;
    }
  }
}

void Run::KeepAnswer(const SinkEvent& event) {
  if (!plan_.chat || size() != 1 || event.kind != SinkEvent::Kind::kFinal) return;
  if (const auto* answer = dynamic_cast<server_task_result_cmpl_final*>(event.result.get()))
    answer_ = answer->oaicompat_msg.to_json_oaicompat();
}

Json Run::Format(SinkEvent& event) {
  Update(event);
  KeepAnswer(event);
  Json out = event.result->to_json();
  last_sent_ = state_.clock.Now();
  if (!plan_.top_logprobs) DropTopLogprobs(out);
  const auto* partial = dynamic_cast<server_task_result_cmpl_partial*>(event.result.get());
  if (partial == nullptr || !partial->is_progress) FixTimings(out);
  if (event.kind != SinkEvent::Kind::kFinal) return out;
  if (WantsCacheReport(params())) AddCacheReport(out, event.report.prompt);
  if (size() == 1 || !params().stream) return out;
  if (event.choice == 0) usage_chunk_ = UsageChunk(out);
  return WithSharedUsage(out, usage_, done(), usage_chunk_);
}

ApiError Run::FailureOf(const SinkEvent& event) const {
  if (state_.stopping) return Unavailable("the server is shutting down");
  if (event.report.error) return FromError(*event.report.error);
  return Unavailable("the request was cancelled");
}

std::string Events(const Json& data, task_response_type type) {
  if (data.is_null()) return {};
  switch (type) {
    case TASK_RESPONSE_TYPE_ANTHROPIC: return format_anthropic_sse(data);
    case TASK_RESPONSE_TYPE_OAI_RESP: return format_oai_resp_sse(data);
    default: return format_oai_sse(data);
  }
}

HttpResponse RunWhole(Run& run) {
  std::vector<Json> answers(run.size());
  while (!run.done()) {
    std::optional<SinkEvent> event = run.Wait(false);
    if (!event)
      return ErrorResponse({499, "client_closed_request", "the client has gone"}, run.dialect());
    if (event->kind == SinkEvent::Kind::kFailed)
      return ErrorResponse(run.FailureOf(*event), run.dialect());
    if (event->kind == SinkEvent::Kind::kFinal) answers[event->choice] = run.Format(*event);
  }
  if (answers.size() == 1) return JsonResponse(answers.front());
  const task_response_type type = run.params().res_type;
  if (type == TASK_RESPONSE_TYPE_OAI_CHAT || type == TASK_RESPONSE_TYPE_OAI_CMPL) {
    return JsonResponse(MergeChoices(std::move(answers), run.usage()));
  }
  return JsonResponse(Json(answers));
}

// The next bytes of a stream; false when they are the last.
bool NextEvents(Run& run, std::optional<SinkEvent>& first, std::string& out) {
  std::optional<SinkEvent> event = first ? std::exchange(first, std::nullopt) : run.Wait(true);
  if (!event) return false;
  if (event->kind == SinkEvent::Kind::kFailed) {
    out = ErrorEvent(run.FailureOf(*event), run.dialect());
    return false;
  }
  if (event->kind == SinkEvent::Kind::kPing) out = ":\n\n";
  if (event->kind == SinkEvent::Kind::kPing || event->kind == SinkEvent::Kind::kBegin) return true;
  const bool last = event->kind == SinkEvent::Kind::kFinal && run.done();
  const task_response_type type = run.params().res_type;
  out = Events(run.Format(*event), type);
  if (last && (type == TASK_RESPONSE_TYPE_OAI_CHAT || type == TASK_RESPONSE_TYPE_OAI_CMPL)) {
    out += "data: [DONE]\n\n";
  }
  return !last;
}

HttpResponse RunStream(const std::shared_ptr<Run>& run) {
  std::optional<SinkEvent> first = run->Wait(false);
  if (!first)
    return ErrorResponse({499, "client_closed_request", "the client has gone"}, run->dialect());
  if (first->kind == SinkEvent::Kind::kFailed)
    return ErrorResponse(run->FailureOf(*first), run->dialect());
  HttpResponse response;
  response.content_type = "text/event-stream";
  response.headers.emplace_back("Cache-Control", "no-cache");
  // std::function wants copyable captures.
  auto pending = std::make_shared<std::optional<SinkEvent>>(std::move(first));
  response.next = [run, pending](std::string& out) {
    const auto more = Guarded([&]() -> ApiResult<bool> { return NextEvents(*run, *pending, out); });
    if (more) return *more;
    out = ErrorEvent(more.error(), run->dialect());
    return false;
  };
  return response;
}

}  // namespace

HttpResponse RunCompletion(ServerState& state, CompletionPlan plan, const HttpRequest& request,
                           const RunOptions& options) {
  const bool stream = plan.params.stream;
  auto run = std::make_shared<Run>(state, std::move(plan), request);
  if (const ApiStatus started = run->Start(options); !started) {
    if (options.log != nullptr)
      options.log->Append(RejectedLine(options.endpoint, started.error()));
    return ErrorResponse(started.error(), run->dialect());
  }
  const auto response = Guarded(
      [&]() -> ApiResult<HttpResponse> { return stream ? RunStream(run) : RunWhole(*run); });
  return response ? *response : ErrorResponse(response.error(), run->dialect());
}

}  // namespace skippy::api
