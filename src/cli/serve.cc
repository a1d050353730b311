// skippy serve: loads a model, answers requests until told to stop, unloads.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "api/http_server.h"
#include "api/metrics.h"
#include "api/request_fields.h"
#include "api/request_log.h"
#include "api/routes.h"
#include "api/server_state.h"
#include "certify/certificate_store.h"
#include "certify/prove.h"
#include "cli/commands.h"
#include "cli/serve_options.h"
#include "cli/served_model.h"
#include "cli/signals.h"
#include "cli/start_lines.h"
#include "engine/engine.h"
#include "skippy/clock.h"
#include "skippy/prefix_cache.h"

namespace skippy::cli {
namespace {

// How long a step may go on when the server is told to stop.
constexpr std::chrono::seconds kPatience{2};

int Fail(const Error& error) { return FailedToStart("skippy serve", error); }

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

common_params_sampling SamplingDefaults(const ServeOptions& options) {
  common_params_sampling sampling;
  using enum common_params_sampling_config;
  sampling.seed = static_cast<std::uint32_t>(options.sampling.seed);
  const auto set_float = [&](float& field, double value, std::uint64_t mark = 0) {
    field = static_cast<float>(value);
    sampling.user_sampling_config |= mark;
  };
  const auto set_int = [&](std::int32_t& field, double value, std::uint64_t mark = 0) {
    field = static_cast<std::int32_t>(value);
    sampling.user_sampling_config |= mark;
  };
  for (const auto& [flag, value] : options.sampling.set) {
    if (flag == "temp") set_float(sampling.temp, value, COMMON_PARAMS_SAMPLING_CONFIG_TEMP);
    if (flag == "top-k") set_int(sampling.top_k, value, COMMON_PARAMS_SAMPLING_CONFIG_TOP_K);
    if (flag == "top-p") set_float(sampling.top_p, value, COMMON_PARAMS_SAMPLING_CONFIG_TOP_P);
    if (flag == "min-p") set_float(sampling.min_p, value, COMMON_PARAMS_SAMPLING_CONFIG_MIN_P);
    if (flag == "typical") set_float(sampling.typ_p, value);
    if (flag == "repeat-last-n")
      set_int(sampling.penalty_last_n, value, COMMON_PARAMS_SAMPLING_CONFIG_PENALTY_LAST_N);
    if (flag == "repeat-penalty")
      set_float(sampling.penalty_repeat, value, COMMON_PARAMS_SAMPLING_CONFIG_PENALTY_REPEAT);
    if (flag == "presence-penalty") set_float(sampling.penalty_present, value);
    if (flag == "frequency-penalty") set_float(sampling.penalty_freq, value);
    if (flag == "dry-multiplier") set_float(sampling.dry_multiplier, value);
    if (flag == "dry-base") set_float(sampling.dry_base, value);
    if (flag == "dry-allowed-length") set_int(sampling.dry_allowed_length, value);
    if (flag == "dry-penalty-last-n") set_int(sampling.dry_penalty_last_n, value);
    if (flag == "xtc-probability")
      set_float(sampling.xtc_probability, value, COMMON_PARAMS_SAMPLING_CONFIG_XTC_PROBABILITY);
    if (flag == "xtc-threshold")
      set_float(sampling.xtc_threshold, value, COMMON_PARAMS_SAMPLING_CONFIG_XTC_THRESHOLD);
    if (flag == "top-n-sigma") set_float(sampling.top_n_sigma, value);
    if (flag == "dynatemp-range") set_float(sampling.dynatemp_range, value);
    if (flag == "dynatemp-exp") set_float(sampling.dynatemp_exponent, value);
    if (flag == "mirostat")
      set_int(sampling.mirostat, value, COMMON_PARAMS_SAMPLING_CONFIG_MIROSTAT);
    if (flag == "mirostat-lr")
      set_float(sampling.mirostat_eta, value, COMMON_PARAMS_SAMPLING_CONFIG_MIROSTAT_ETA);
    if (flag == "mirostat-ent")
      set_float(sampling.mirostat_tau, value, COMMON_PARAMS_SAMPLING_CONFIG_MIROSTAT_TAU);
  }
  return sampling;
}

CacheOptions CacheOptionsOf(const ServeOptions& options, const runtime::RuntimeInfo& info,
                            bool caching) {
  CacheOptions cache;
  cache.shape = info.shape;
  cache.policy = caching ? info.policy : PayloadPolicy::kOff;
  cache.max_bytes = options.cache_ram_mib << 20U;
  // A stored result saves one token: in a small cache it must not crowd out whole conversations.
  cache.max_logits_bytes = std::min(cache.max_logits_bytes, cache.max_bytes / 16);
  return cache;
}

// Variables for the template, each as JSON text.
Result<std::map<std::string, std::string>> TemplateVariables(const ServeOptions& options) {
  std::map<std::string, std::string> variables;
  if (options.reasoning != "auto")
    variables["enable_thinking"] = options.reasoning == "on" ? "true" : "false";
  if (options.template_kwargs.empty()) return variables;
  const auto parsed = api::ParseBody(options.template_kwargs);
  if (!parsed)
    return Err(ErrorCode::kInvalidArgument, "--chat-template-kwargs: " + parsed.error().message);
  for (const auto& [name, value] : parsed->items()) variables[name] = value.dump();
  return variables;
}

api::ServerSettings SettingsOf(const ServeOptions& options) {
  api::ServerSettings settings;
  settings.model_path = options.model.file;
  settings.aliases.insert(options.aliases.begin(), options.aliases.end());
  settings.tags.insert(options.tags.begin(), options.tags.end());
  settings.metrics = options.metrics;
  settings.slots = options.slots;
  settings.props = options.props;
  settings.jinja = options.jinja;
  settings.chat_template = options.chat_template;
  settings.reasoning_format = options.reasoning_format;
  settings.reasoning = options.reasoning != "off";
  settings.reasoning_budget = options.reasoning_budget;
  settings.max_choices = std::min<std::uint32_t>(options.max_queue, 128);
  settings.n_predict = options.sampling.n_predict;
  settings.sse_ping_seconds = options.sse_ping_seconds;
  settings.tenants.shared_cache = options.shared_cache;
  settings.verbose = options.verbose;
  settings.log_requests = options.log_requests;
  settings.idle_prefill = options.idle_prefill && options.cache;
  settings.sampling = SamplingDefaults(options);
  return settings;
}

certify::ProveOptions ProveOptionsOf(const ServeOptions& options) {
  certify::ProveOptions test;
  test.exactness = options.bit_exact ? Exactness::kBit : Exactness::kToken;
  test.run = options.self_test;
  test.certificate_file = options.certificate;
  test.folder = certify::DefaultCertificateFolder();
  test.say = Say;
  return test;
}

void PrintStart(const ServeOptions& options, const std::vector<std::string>& lines,
                const api::ServerState& state, int port) {
  const runtime::RuntimeInfo& info = state.info;
  Say(fmt::format("skippy: serving {}", state.model_name));
  for (const std::string& line : lines) Say(line);
  if (!options.cache) {
    Say("  cache     off (--no-cache)");
  } else if (info.policy == PayloadPolicy::kOff) {
    Say(fmt::format("  cache     off: {}", info.policy_reason));
  } else {
    Say(fmt::format("  cache     {}, host tier {} MiB, exactness {}",
                    PayloadPolicyName(info.policy), options.cache_ram_mib,
                    options.bit_exact ? "bit" : "token"));
    Say(fmt::format("  proof     {}", state.settings.proof));
    Say(fmt::format("  reuse     {}", api::ReuseWords(info)));
  }
  Say(fmt::format("  lanes     {} x {} tokens of context, chunks of {}, queue of {}", info.lanes,
                  info.context, info.chunk, options.max_queue));
  if (!state.template_knows_tools) {
    Say("  tools     the template knows none: they are told in the system message and held by a "
        "grammar");
  }
  for (const std::string& host : options.hosts) {
    const bool v6 = host.find(':') != std::string::npos;
    const std::string url =
        fmt::format("http://{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
    Say(fmt::format("  address   {0}  (OpenAI base URL: {0}/v1){1}", url,
                    options.api_keys.empty() ? "" : ", API key needed"));
  }
  const bool local = std::all_of(options.hosts.begin(), options.hosts.end(), IsLoopback);
  if (!local && options.api_keys.empty()) {
    Say("  WARNING   anyone who reaches this address may use the server: set --api-key or "
        "--api-key-file");
  }
}

// Everything that lives as long as the server; destroyed in reverse order.
struct Loaded {
  SteadyClock clock;
  std::optional<ServedModel> served;
  std::unique_ptr<PrefixCache> cache;
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<api::RequestLog> log;
  std::unique_ptr<api::ServerState> state;
};

Status Load(const ServeOptions& options, Loaded& loaded) {
  SKIPPY_TRY(loaded.served, ServedModel::Load(options));
  ServedModel& served = *loaded.served;
  const runtime::RuntimeInfo& info = served.runtime().info();

  bool caching = options.cache && info.policy != PayloadPolicy::kOff;
  certify::Proof proof;
  if (caching) {
    SKIPPY_TRY(proof, certify::ProveExact(served.runtime(), ProveOptionsOf(options)));
    if (!proof.exact) Say("skippy: the cache is off: " + proof.words);
    caching = proof.exact;
  }
  const CacheOptions cache = CacheOptionsOf(options, info, caching);
  for (const std::string& problem : cache.Validate())
    return Err(ErrorCode::kInvalidArgument, problem);
  loaded.cache = std::make_unique<PrefixCache>(cache, loaded.clock);

  engine::EngineOptions engine;
  engine.max_queue = options.max_queue;
  engine.exactness = options.bit_exact ? Exactness::kBit : Exactness::kToken;
  engine.cache = caching;
  // State that cannot be exported can still be gone on with where it lies; state that was found
  // wrong cannot.
  engine.hot_lanes = engine.hot_lanes && options.cache && proof.exact;
  engine.share_prefill = engine.share_prefill && engine.cache;
  loaded.engine =
      std::make_unique<engine::Engine>(engine, served.runtime(), *loaded.cache, loaded.clock);
  if (options.log_requests) loaded.log = std::make_unique<api::RequestLog>(stdout);
  api::ServerSettings settings = SettingsOf(options);
  settings.staged = served.Staged();
  settings.family = served.FamilyWords();
  settings.proof = proof.words;
  if (!proof.exact) settings.cache_off_reason = proof.words;
  SKIPPY_TRY(settings.template_kwargs, TemplateVariables(options));
  SKIPPY_TRY(loaded.state, api::ServerState::Make(std::move(settings), served.model(),
                                                  served.runtime(), *loaded.engine, loaded.clock));
  return {};
}

// Ends running requests, so that their handlers return. A stage that does not answer is not waited
// for: what it was asked for is given up anyway.
void StopEngine(Loaded& loaded) {
  std::promise<void> stopped;
  std::thread patience([&loaded, done = stopped.get_future()] {
    if (done.wait_for(kPatience) == std::future_status::timeout) loaded.served->Disconnect();
  });
  loaded.engine->Stop();
  stopped.set_value();
  patience.join();
}

}  // namespace

int Serve(std::vector<std::string> arguments) {
  std::setlocale(LC_NUMERIC, "C");
  const auto parsed = ParseServe(std::move(arguments));
  if (!parsed) return Fail(parsed.error());
  if (parsed->help) {
    std::printf("%s", parsed->help->c_str());
    return 0;
  }
  const ServeOptions& options = parsed->options;
  InstallStopSignals();
  if (options.verbose) setenv("SKIPPY_LLAMA_LOG", "info", 0);

  api::HttpOptions http;
  http.hosts = options.hosts;
  http.port = options.port;
  http.api_keys = options.api_keys;
  http.cors_origins = options.cors_origins;
  http.max_body_bytes = std::size_t{options.max_body_mib} << 20U;
  http.max_threads = options.http_threads;
  http.timeout_seconds = options.timeout_seconds;
  auto server = api::HttpServer::Bind(http);
  if (!server) return Fail(server.error());
  (*server)->Start();

  Loaded loaded;
  if (const Status status = Load(options, loaded); !status) {
    (*server)->Stop();
    return Fail(status.error());
  }
  loaded.engine->Start();
  (*server)->Publish(api::MakeRoutes(*loaded.state, loaded.log.get()));
  PrintStart(options, loaded.served->StartLines(), *loaded.state, (*server)->port());

  WaitForStop();
  Say("skippy: stopping");
  loaded.state->stopping.store(true);
  StopEngine(loaded);
  (*server)->Stop();
  return 0;
}

}  // namespace skippy::cli
