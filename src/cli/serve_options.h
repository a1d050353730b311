// The flags of `skippy serve`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "skippy/result.h"

namespace skippy::cli {

struct ServeOptions {
  // model
  std::string model;
  std::vector<std::string> aliases;
  std::vector<std::string> tags;
  bool verbose = false;          // llama.cpp's own log on standard error, "__verbose" in answers
  std::int32_t gpu_layers = -1;  // -1: all that fit
  bool mmap = true;
  std::vector<std::pair<std::string, float>> adapters;
  bool adapters_off_at_start = false;

  // runtime
  std::uint32_t context = 0;  // positions a lane; 0: the model's training length, at most 8192
  std::uint32_t lanes = 1;
  std::uint32_t chunk = 0;  // 0: the runtime's default
  std::uint32_t threads = 0;
  std::uint32_t threads_batch = 0;
  bool flash_attention = true;
  bool swa_full = false;
  std::string type_k = "f16";
  std::string type_v = "f16";

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
  bool help = false;
  std::string help_text;
};

// `arguments`: what follows "serve". kInvalidArgument: unknown flag (with the nearest known one), a
// value of the wrong kind or out of range (with the range), a llama-server flag that means
// something inexact.
Result<ParsedServe> ParseServe(std::vector<std::string> arguments);

}  // namespace skippy::cli
