// The flags of `skippy serve`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/model_flags.h"
#include "cli/stages_flags.h"
#include "skippy/result.h"

namespace skippy::cli {

struct ServeOptions {
  // model
  ModelSetup model;
  StagesSetup stages;
  std::vector<std::string> aliases;
  std::vector<std::string> tags;
  bool verbose = false;  // llama.cpp's own log on standard error, "__verbose" in answers
  std::vector<std::pair<std::string, float>> adapters;
  bool adapters_off_at_start = false;

  // cache
  bool cache = true;
  std::uint64_t cache_ram_mib = 0;  // after parsing: the cap to use
  bool bit_exact = false;
  std::uint32_t max_queue = 64;
  bool shared_cache = false;

  // server
  std::vector<std::string> hosts{"127.0.0.1"};
  int port = 8080;
  std::vector<std::string> api_keys;
  std::string cors_origins = "localhost";
  int timeout_seconds = 600;
  std::uint32_t http_threads = 512;
  std::uint32_t max_body_mib = 32;
  int sse_ping_seconds = 30;
  bool metrics = false;
  bool slots = true;
  bool props = false;
  bool log_requests = false;
  bool idle_prefill = false;
  bool self_test = true;    // of kept state, where there is no certificate
  std::string certificate;  // a file; empty: the one that is kept for this model and settings

  // chat
  bool jinja = true;
  std::string chat_template;
  std::string reasoning_format = "deepseek";
  std::string reasoning = "auto";  // on, off, auto
  std::int32_t reasoning_budget = -1;
  std::string template_kwargs;  // JSON object

  // sampling defaults of requests that say nothing; unset: llama.cpp's or the model's
  struct Sampling {
    std::int64_t seed = -1;
    std::int32_t n_predict = -1;
    std::vector<std::pair<std::string, double>> set;  // flag name without dashes -> value
  } sampling;
};

struct ParsedServe {
  ServeOptions options;
  std::optional<std::string> help;  // --help was asked for: the text
};

// `arguments`: what follows "serve". kInvalidArgument: unknown flag (with the nearest known one), a
// value of the wrong kind or out of range (with the range), a llama-server flag that means
// something inexact.
Result<ParsedServe> ParseServe(std::vector<std::string> arguments);

}  // namespace skippy::cli
