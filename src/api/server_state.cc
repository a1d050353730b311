#include "api/server_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <utility>

#include "api/plan_memo.h"
#include "chat.h"
#include "sampling.h"

namespace skippy::api {
namespace {

std::string MetaText(const llama_model* model, llama_model_meta_key key) {
  char buffer[512] = {};
  const int length =
      llama_model_meta_val_str(model, llama_model_meta_key_str(key), buffer, sizeof buffer);
  return length > 0 ? std::string(buffer) : std::string();
}

void MetaNumber(const llama_model* model, llama_model_meta_key key, float& value) {
  const std::string text = MetaText(model, key);
  char* end = nullptr;
  const float parsed = std::strtof(text.c_str(), &end);
  if (end != text.c_str() && std::isfinite(parsed)) value = parsed;
}

void MetaNumber(const llama_model* model, llama_model_meta_key key, std::int32_t& value) {
  auto parsed = static_cast<float>(value);
  MetaNumber(model, key, parsed);
  if (std::abs(parsed) < 1e9F) value = static_cast<std::int32_t>(parsed);
}

// A GGUF may carry sampling defaults of its own; what the command line set stays, as in
// llama-server.
void ApplyModelSamplingDefaults(const llama_model* model, common_params_sampling& sampling) {
  const auto free_to_set = [&](common_params_sampling_config field) {
    return (sampling.user_sampling_config & field) == 0;
  };
  using enum common_params_sampling_config;
  if (free_to_set(COMMON_PARAMS_SAMPLING_CONFIG_SAMPLERS)) {
    const std::string names = MetaText(model, LLAMA_MODEL_META_KEY_SAMPLING_SEQUENCE);
    if (!names.empty()) {
      sampling.samplers = common_sampler_types_from_names(string_split<std::string>(names, ';'));
    }
  }
  const auto apply = [&](common_params_sampling_config field, llama_model_meta_key key,
                         auto& value) {
    if (free_to_set(field)) MetaNumber(model, key, value);
  };
  apply(COMMON_PARAMS_SAMPLING_CONFIG_TOP_K, LLAMA_MODEL_META_KEY_SAMPLING_TOP_K, sampling.top_k);
  apply(COMMON_PARAMS_SAMPLING_CONFIG_TOP_P, LLAMA_MODEL_META_KEY_SAMPLING_TOP_P, sampling.top_p);
  apply(COMMON_PARAMS_SAMPLING_CONFIG_MIN_P, LLAMA_MODEL_META_KEY_SAMPLING_MIN_P, sampling.min_p);
  apply(COMMON_PARAMS_SAMPLING_CONFIG_XTC_PROBABILITY,
        LLAMA_MODEL_META_KEY_SAMPLING_XTC_PROBABILITY, sampling.xtc_probability);
  apply(COMMON_PARAMS_SAMPLING_CONFIG_XTC_THRESHOLD, LLAMA_MODEL_META_KEY_SAMPLING_XTC_THRESHOLD,
        sampling.xtc_threshold);
  apply(COMMON_PARAMS_SAMPLING_CONFIG_TEMP, LLAMA_MODEL_META_KEY_SAMPLING_TEMP, sampling.temp);
  apply(COMMON_PARAMS_SAMPLING_CONFIG_PENALTY_LAST_N, LLAMA_MODEL_META_KEY_SAMPLING_PENALTY_LAST_N,
        sampling.penalty_last_n);
  apply(COMMON_PARAMS_SAMPLING_CONFIG_PENALTY_REPEAT, LLAMA_MODEL_META_KEY_SAMPLING_PENALTY_REPEAT,
        sampling.penalty_repeat);
  apply(COMMON_PARAMS_SAMPLING_CONFIG_MIROSTAT, LLAMA_MODEL_META_KEY_SAMPLING_MIROSTAT,
        sampling.mirostat);
  apply(COMMON_PARAMS_SAMPLING_CONFIG_MIROSTAT_TAU, LLAMA_MODEL_META_KEY_SAMPLING_MIROSTAT_TAU,
        sampling.mirostat_tau);
  apply(COMMON_PARAMS_SAMPLING_CONFIG_MIROSTAT_ETA, LLAMA_MODEL_META_KEY_SAMPLING_MIROSTAT_ETA,
        sampling.mirostat_eta);
}

std::string NameOf(const ServerSettings& settings) {
  if (!settings.aliases.empty()) return *settings.aliases.begin();
  if (settings.staged) return settings.staged->name;
  return std::filesystem::path(settings.model_path).filename().string();
}

runtime::RuntimeInfo InfoOf(const runtime::Runtime& runtime, const std::string& cache_off_reason) {
  runtime::RuntimeInfo info = runtime.info();
  if (!cache_off_reason.empty()) {
    info.policy = PayloadPolicy::kOff;
    info.policy_reason = cache_off_reason;
  }
  return info;
}

}  // namespace

ServerState::ServerState(ServerSettings given, const llama::Model& loaded,
                         runtime::Runtime& runtime, engine::Engine& running, const Clock& time)
    : settings(std::move(given)),
      model(loaded),
      info(InfoOf(runtime, settings.cache_off_reason)),
      engine(running),
      clock(time),
      plans(std::make_unique<PlanMemo>()) {
  vocab = model.vocab();
  model_name = NameOf(settings);
  started_unix = static_cast<std::int64_t>(std::time(nullptr));

  params.sampling = settings.sampling;
  ApplyModelSamplingDefaults(model.raw(), params.sampling);
  params.sampling.backend_sampling = false;
  params.n_predict = settings.n_predict;
  params.n_parallel = static_cast<std::int32_t>(settings.max_choices);
  params.n_ctx = static_cast<std::int32_t>(info.context);
  params.sse_ping_interval = settings.sse_ping_seconds;
  params.verbosity = settings.verbose ? 10 : 0;  // over 9: answers carry "__verbose"
  params.cache_prompt = true;
  params.n_cache_reuse = 0;

  const std::int32_t tokens = llama_vocab_n_tokens(vocab);
  for (llama_token token = 0; token < tokens; ++token) {
    if (llama_vocab_is_eog(vocab, token)) {
      logit_bias_eog.push_back({token, -INFINITY});
    }
    const char* text = llama_vocab_get_text(vocab, token);
    if (text != nullptr) longest_piece = std::max(longest_piece, std::string_view(text).size());
  }
  params.sampling.logit_bias_eog = logit_bias_eog;
  for (const llama::Model::Adapter& adapter : model.adapters()) {
    adapter_scales_.push_back(adapter.default_scale);
  }
}

ServerState::~ServerState() = default;

Status ServerState::InitTemplates() {
  const auto done = Guarded([&]() -> ApiStatus {
    chat.use_jinja = settings.jinja;
    chat.prefill_assistant = true;
    chat.reasoning_format = common_reasoning_format_from_name(settings.reasoning_format);
    params.reasoning_format = chat.reasoning_format;
    chat.tmpls = common_chat_templates_init(model.raw(), settings.chat_template);
    chat.allow_image = chat.allow_audio = chat.allow_video = false;
    chat.enable_thinking = settings.jinja && settings.reasoning &&
                           common_chat_templates_support_enable_thinking(chat.tmpls.get());
    chat.chat_template_kwargs = settings.template_kwargs;
    chat.reasoning_budget = settings.reasoning_budget;
    const auto caps = common_chat_templates_get_caps(chat.tmpls.get());
    const auto has = [&](const char* name) {
      const auto it = caps.find(name);
      return it != caps.end() && it->second;
    };
    template_knows_tools = has("supports_tools") || has("supports_tool_calls");
    for (const char* variant : {"", "tool_use"}) {
      const std::string source = common_chat_templates_source(chat.tmpls.get(), variant);
      for (const char* word : {"strftime", "date", "time", "now"}) {
        template_asks_date = template_asks_date || source.find(word) != std::string::npos;
      }
    }
    // A template that cannot render a plain question is found out now and not by the first request.
    common_chat_format_example(chat.tmpls.get(), chat.use_jinja, settings.template_kwargs);
    return {};
  });
  if (!done) {
    const std::string& why = done.error().message;
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("the chat template cannot be used: {}",
                           why == "std::exception" ? "it is not valid Jinja" : why));
  }
  return {};
}

Result<std::unique_ptr<ServerState>> ServerState::Make(ServerSettings settings,
                                                       const llama::Model& model,
                                                       runtime::Runtime& runtime,
                                                       engine::Engine& engine, const Clock& clock) {
  std::unique_ptr<ServerState> state(
      new ServerState(std::move(settings), model, runtime, engine, clock));
  SKIPPY_RETURN_IF_ERROR(state->InitTemplates());
  return state;
}

FieldLimits ServerState::Limits() const {
  return FieldLimits{.max_choices = settings.max_choices,
                     .context = info.context,
                     .vocab = static_cast<std::int64_t>(info.vocab)};
}

std::vector<float> ServerState::AdapterScales() const {
  const std::lock_guard lock(mutex_);
  return adapter_scales_;
}

void ServerState::SetAdapterScales(std::vector<float> scales) {
  const std::lock_guard lock(mutex_);
  adapter_scales_ = std::move(scales);
}

ServerState::Adapters ServerState::DefaultAdapters() const {
  const std::lock_guard lock(mutex_);
  Adapters active;
  for (std::size_t i = 0; i < adapter_scales_.size(); ++i) {
    if (adapter_scales_[i] != 0)
      active.emplace_back(static_cast<std::uint32_t>(i), adapter_scales_[i]);
  }
  return active;
}

}  // namespace skippy::api
