#include "cli/serve_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "cli/flag_parser.h"
#include "cli/flag_values.h"

namespace skippy::cli {
namespace {

const std::map<std::string, std::string>& Spellings() {
  static const std::map<std::string, std::string> all = [] {
    std::map<std::string, std::string> spellings{
        {"-a", "--alias"},          {"-v", "--verbose"},
        {"-cram", "--cache-ram"},   {"-n", "--n-predict"},
        {"-s", "--seed"},           {"-to", "--timeout"},
        {"-cb", "--cont-batching"}, {"-no-kvu", "--no-kv-unified"},
    };
    spellings.insert(ModelSpellings().begin(), ModelSpellings().end());
    return spellings;
  }();
  return all;
}

// Flags of llama-server that would make answers inexact, or that this server has no counterpart
// for.
const std::map<std::string, std::string>& Refused() {
  static const std::string kShift =
      "moving cached text to other positions changes answers; this server reuses exact prefixes "
      "only";
  static const std::string kMedia = "this server serves text only";
  static const std::string kDraft = "speculative decoding is not supported yet";
  static const std::map<std::string, std::string> kReasons{
      {"--cache-reuse", kShift},
      {"--context-shift", "shifting the context is not exact; answers end at the context size"},
      {"--kv-unified", "a unified KV cache is not exact: lanes are isolated streams here"},
      {"-kvu", "a unified KV cache is not exact: lanes are isolated streams here"},
      {"--slot-save-path", "prefixes are kept and restored by themselves here"},
      {"--embedding", "embeddings are not supported"},
      {"--embeddings", "embeddings are not supported"},
      {"--rerank", "reranking is not supported"},
      {"--reranking", "reranking is not supported"},
      {"--mmproj", kMedia},
      {"-mm", kMedia},
      {"--model-draft", kDraft},
      {"-md", kDraft},
      {"--no-cont-batching", "lanes always decode together"},
      {"-nocb", "lanes always decode together"},
      {"-hf", "give a local file with --model"},
      {"--hf-repo", "give a local file with --model"},
      {"--cache-disk", "the disk tier is not part of this version"},
      {"--ssl-key-file", "put a TLS proxy in front; this server speaks plain HTTP"},
      {"--ssl-cert-file", "put a TLS proxy in front; this server speaks plain HTTP"},
      {"--ctx-checkpoints", "snapshots are placed by the cache under --cache-ram"},
      {"-ctxcp", "snapshots are placed by the cache under --cache-ram"},
  };
  return kReasons;
}

struct Range {
  const char* flag;
  double least;
  double most;
};

// Sampling defaults; the names are those of the request fields' flags in llama-server.
constexpr Range kSampling[] = {
    {"temp", 0, 1e6},
    {"top-k", 0, 2147483647.0},
    {"top-p", 0, 1},
    {"min-p", 0, 1},
    {"typical", 0, 1e6},
    {"repeat-last-n", 0, 2147483647.0},
    {"repeat-penalty", 1e-6, 1e6},
    {"presence-penalty", -1e6, 1e6},
    {"frequency-penalty", -1e6, 1e6},
    {"dry-multiplier", 0, 1e6},
    {"dry-base", 0, 1e6},
    {"dry-allowed-length", 0, 2147483647.0},
    {"dry-penalty-last-n", 0, 2147483647.0},
    {"xtc-probability", 0, 1},
    {"xtc-threshold", 0, 1e6},
    {"top-n-sigma", -1e6, 1e6},
    {"dynatemp-range", 0, 1e6},
    {"dynatemp-exp", -1e6, 1e6},
    {"mirostat", 0, 2},
    {"mirostat-lr", 0, 1e6},
    {"mirostat-ent", 0, 1e6},
};

// What the parser fills and Resolve turns into options.
struct Raw {
  ModelFlags model;
  StagesFlags stages;
  std::int64_t cache_ram = -1;
  std::string exactness = "token";
  std::string template_file, key_file, host = "127.0.0.1";
  std::vector<std::string> keys, lora, lora_scaled, aliases, tags;
  bool no_cache = false, no_self_test = false, no_slots = false, no_jinja = false;
  bool ignored = false;
  std::map<std::string, double> sampling;
};

void AddModelFlags(CLI::App& app, ServeOptions& options, Raw& raw) {
  raw.model.AddTo(
      app, options.model,
      "the GGUF file to serve; with --stages the folder that `skippy stage split` wrote");
  app.add_option("--alias", raw.aliases, "name(s) of the model shown to clients; comma-separated")
      ->group("Model");
  app.add_option("--tags", raw.tags, "tags told in the list of models; comma-separated")
      ->group("Model");
  app.add_option("--lora", raw.lora, "LoRA adapter file(s), scale 1; comma-separated or repeated")
      ->group("Model");
  app.add_option("--lora-scaled", raw.lora_scaled, "LoRA adapter with a scale, FILE:SCALE")
      ->group("Model");
  app.add_flag("--lora-init-without-apply", options.adapters_off_at_start,
               "load adapters with scale 0 (POST /lora-adapters sets it)")
      ->group("Model");
  for (const char* flag :
       {"--cont-batching", "--no-kv-unified", "--no-context-shift", "--cache-prompt", "--warmup",
        "--no-warmup", "--no-webui", "--no-ui", "--no-perf"}) {
    app.add_flag(flag, raw.ignored, "accepted: it is so anyway")->group("");
  }
}

void AddCacheFlags(CLI::App& app, ServeOptions& options, Raw& raw) {
  const char* group = "Cache";
  app.add_option("--cache-ram", raw.cache_ram,
                 "hard cap of the host tier in MiB (0: lanes only); default: a quarter of the "
                 "memory, at most "
                 "4096")
      ->check(CLI::Range(0L, 1073741824L))
      ->group(group);
  app.add_option("--exactness", raw.exactness,
                 "token: greedy tokens equal a cold run's; bit: logits do (coarser reuse, no "
                 "batched decoding)")
      ->check(CLI::IsMember({"token", "bit"}))
      ->group(group);
  app.add_flag("--no-cache,--no-cache-prompt", raw.no_cache, "serve without a cache")->group(group);
  app.add_flag("--no-self-test", raw.no_self_test,
               "do not test for a few seconds whether kept state is exact when there is no "
               "certificate")
      ->group(group);
  app.add_option("--certificate", options.certificate,
                 "a file that `skippy certify` wrote for this model and these settings")
      ->group(group);
  app.add_flag(
         "--idle-prefill", options.idle_prefill,
         "after a chat's answer, evaluate the finished turn as the next request will send it, "
         "while nothing else is to do")
      ->group(group);
  app.add_option("--max-queue", options.max_queue, "requests that may wait; more get 429")
      ->check(CLI::Range(1L, 100000L))
      ->group(group);
  app.add_flag("--shared-cache", options.shared_cache, "all API keys share cached prefixes")
      ->group(group);
}

void AddServerFlags(CLI::App& app, ServeOptions& options, Raw& raw) {
  const char* group = "Server";
  app.add_option("--host", raw.host, "address(es) to listen on; comma-separated")->group(group);
  app.add_option("--port", options.port, "port; 0: a free one, printed at start")
      ->check(CLI::Range(0L, 65535L))
      ->group(group);
  app.add_option("--api-key", raw.keys,
                 "key(s) that clients must send; comma-separated or repeated")
      ->group(group);
  app.add_option("--api-key-file", raw.key_file, "file with one key a line")->group(group);
  app.add_option("--cors-origins", options.cors_origins,
                 "whose web pages may read answers: localhost (default), * or one origin")
      ->group(group);
  app.add_option("--timeout", options.timeout_seconds, "seconds that a read or write may take")
      ->check(CLI::Range(1L, 86400L))
      ->group(group);
  app.add_option("--threads-http", options.http_threads, "connections served at once")
      ->check(CLI::Range(1L, 65536L))
      ->group(group);
  app.add_option("--max-body", options.max_body_mib, "largest request body in MiB")
      ->check(CLI::Range(1L, 1024L))
      ->group(group);
  app.add_option("--sse-ping-interval", options.sse_ping_seconds,
                 "seconds of silence before a stream pings; -1: never")
      ->check(CLI::Range(-1L, 86400L))
      ->group(group);
  app.add_flag("--metrics", options.metrics, "serve GET /metrics (Prometheus)")->group(group);
  app.add_flag("--slots", raw.ignored, "serve GET /slots (the default)")->group(group);
  app.add_flag("--no-slots", raw.no_slots, "do not serve GET /slots")->group(group);
  app.add_flag("--props", options.props, "allow POST /props")->group(group);
  app.add_flag("--verbose,--log-verbose", options.verbose,
               "llama.cpp's own log on standard error (may contain text), and __verbose in answers")
      ->group(group);
  app.add_flag("--log-requests", options.log_requests,
               "one JSON line a request on standard output, no text")
      ->group(group);
}

void AddChatFlags(CLI::App& app, ServeOptions& options, Raw& raw) {
  app.add_flag("--jinja", raw.ignored, "use the model's Jinja template (the default)")
      ->group("Chat");
  app.add_flag("--no-jinja", raw.no_jinja, "use llama.cpp's built-in templates only")
      ->group("Chat");
  app.add_option("--chat-template", options.chat_template,
                 "Jinja text or name that replaces the model's template")
      ->group("Chat");
  app.add_option("--chat-template-file", raw.template_file, "file with a Jinja template")
      ->group("Chat");
  app.add_option("--reasoning-format", options.reasoning_format, "how thinking is returned")
      ->check(CLI::IsMember({"auto", "none", "deepseek", "deepseek-legacy"}))
      ->group("Chat");
  app.add_option("--reasoning", options.reasoning, "on, off or auto (what the template supports)")
      ->check(CLI::IsMember({"on", "off", "auto"}))
      ->group("Chat");
  app.add_option("--reasoning-budget", options.reasoning_budget,
                 "most tokens of thinking; -1: no limit")
      ->check(CLI::Range(-1L, 2147483647L))
      ->group("Chat");
  app.add_option("--chat-template-kwargs", options.template_kwargs,
                 "JSON object of variables for the template")
      ->group("Chat");
}

void AddSamplingFlags(CLI::App& app, ServeOptions& options, Raw& raw) {
  const char* group = "Sampling defaults of requests that say nothing";
  app.add_option("--seed", options.sampling.seed, "random seed; -1: random")
      ->check(CLI::Range(-1L, 4294967295L))
      ->group(group);
  app.add_option("--n-predict,--predict", options.sampling.n_predict,
                 "most tokens of an answer; -1: up to the context")
      ->check(CLI::Range(-1L, 2147483647L))
      ->group(group);
  for (const Range& range : kSampling) {
    std::string names = fmt::format("--{}", range.flag);
    if (names == "--temp") names += ",--temperature";
    if (names == "--typical") names += ",--typical-p";
    if (names == "--top-n-sigma") names += ",--top-nsigma";
    app.add_option_function<double>(
           names, [&raw, flag = range.flag](const double& value) { raw.sampling[flag] = value; },
           "")
        ->check(CLI::Range(range.least, range.most))
        ->group(group);
  }
}

Status ResolveKeys(const Raw& raw, ServeOptions& options) {
  for (const std::string& given : raw.keys) {
    for (std::string& key : SplitOn(given, ',')) options.api_keys.push_back(std::move(key));
  }
  if (!raw.key_file.empty()) {
    SKIPPY_TRY(const std::string text, ReadFile("--api-key-file", raw.key_file));
    const std::size_t before = options.api_keys.size();
    for (std::string line : SplitOn(text, '\n')) {
      while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0)
        line.pop_back();
      if (!line.empty()) options.api_keys.push_back(std::move(line));
    }
    if (options.api_keys.size() == before) {
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("--api-key-file: '{}' holds no key", raw.key_file));
    }
  }
  return {};
}

void ResolveNames(const Raw& raw, ServeOptions& options) {
  const auto split = [](const std::vector<std::string>& given, std::vector<std::string>& into) {
    for (const std::string& list : given) {
      for (std::string& name : SplitOn(list, ',')) into.push_back(std::move(name));
    }
  };
  split(raw.aliases, options.aliases);
  split(raw.tags, options.tags);
}

Status ResolveAdapters(const Raw& raw, ServeOptions& options) {
  for (const std::string& given : raw.lora) {
    for (const std::string& path : SplitOn(given, ',')) options.adapters.emplace_back(path, 1.0F);
  }
  for (const std::string& given : raw.lora_scaled) {
    for (const std::string& item : SplitOn(given, ',')) {
      const std::size_t colon = item.rfind(':');
      float scale = NAN;
      if (colon != std::string::npos) {
        const std::string number = item.substr(colon + 1);
        std::size_t used = 0;
        try {
          scale = std::stof(number, &used);
        } catch (const std::exception&) {
          used = 0;
        }
        if (used != number.size()) scale = NAN;
      }
      if (!std::isfinite(scale)) {
        return Err(ErrorCode::kInvalidArgument,
                   fmt::format("--lora-scaled: '{}' is not FILE:SCALE", item));
      }
      options.adapters.emplace_back(item.substr(0, colon), scale);
    }
  }
  if (options.adapters_off_at_start) {
    for (auto& [path, scale] : options.adapters) scale = 0;
  }
  return {};
}

Status ResolveStages(const Raw& raw, ServeOptions& options) {
  SKIPPY_RETURN_IF_ERROR(raw.stages.Resolve(options.stages));
  if (!options.stages.on()) return {};
  if (const auto given = raw.model.GivenRuntime(); !given.empty())
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("{} is a setting of the stages: give it to each `skippy stage serve`, "
                           "all alike, and leave it out here",
                           given.front()));
  if (!options.adapters.empty())
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("adapter '{}': a model in stages has none; serve the whole model",
                           options.adapters.front().first));
  return {};
}

Status Resolve(const Raw& raw, ServeOptions& options) {
  options.bit_exact = raw.exactness == "bit";
  options.cache = !raw.no_cache;
  options.self_test = !raw.no_self_test;
  options.cache_ram_mib =
      raw.cache_ram < 0 ? DefaultCacheMib() : static_cast<std::uint64_t>(raw.cache_ram);
  options.slots = !raw.no_slots;
  options.jinja = !raw.no_jinja;
  for (const auto& [flag, value] : raw.sampling) options.sampling.set.emplace_back(flag, value);
  if (!raw.template_file.empty()) {
    SKIPPY_TRY(options.chat_template, ReadFile("--chat-template-file", raw.template_file));
  }
  ResolveNames(raw, options);
  options.hosts = SplitOn(raw.host, ',');
  if (options.hosts.empty()) {
    return Err(ErrorCode::kInvalidArgument, fmt::format("--host: '{}' names no address", raw.host));
  }
  SKIPPY_RETURN_IF_ERROR(ResolveKeys(raw, options));
  SKIPPY_RETURN_IF_ERROR(ResolveAdapters(raw, options));
  SKIPPY_RETURN_IF_ERROR(raw.model.Resolve(options.model));
  return ResolveStages(raw, options);
}

}  // namespace

Result<ParsedServe> ParseServe(std::vector<std::string> arguments) {
  ParsedServe parsed;
  Raw raw;
  CLI::App app(
      "Serves a GGUF model over an OpenAI-compatible HTTP API with an exact prefix cache.\n"
      "llama-server's short spellings (-m -c -np -ngl -t -tb -b -ub -fa -ctk -ctv -n -s) work too.",
      "skippy serve");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  AddModelFlags(app, parsed.options, raw);
  raw.stages.AddTo(app, parsed.options.stages);
  AddCacheFlags(app, parsed.options, raw);
  AddServerFlags(app, parsed.options, raw);
  AddChatFlags(app, parsed.options, raw);
  AddSamplingFlags(app, parsed.options, raw);
  for (const char* many : {"--lora", "--lora-scaled", "--api-key", "--alias", "--tags"}) {
    app.get_option(many)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  SKIPPY_TRY(parsed.help, ParseFlags(app, std::move(arguments), {Spellings(), Refused()}));
  if (parsed.help) return parsed;
  SKIPPY_RETURN_IF_ERROR(Resolve(raw, parsed.options));
  return parsed;
}

}  // namespace skippy::cli
