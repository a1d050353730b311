// What all handlers share: the loaded model as the protocol sees it, the engine, and the server's
// settings.
//
// Threads: settings and model facts are immutable after construction; adapter scales, counters and
// the stopping flag are thread-safe. Everything referred to must outlive it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/errors.h"
#include "api/request_fields.h"
#include "api/telemetry.h"
#include "api/tenant.h"
#include "common.h"
#include "engine/engine.h"
#include "llama/model.h"
#include "runtime/runtime.h"
#include "server-common.h"
#include "skippy/clock.h"
#include "skippy/result.h"

namespace skippy::api {

// A model in stages: the loaded model is its vocabulary alone, so clients are told these.
struct StagedModel {
  std::string name;
  std::uint32_t layers = 0;
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> stages;  // their layers, "0..10"
  std::string wire;                 // how rows travel between them, "f32"
};

struct ServerSettings {
  std::string model_path;
  std::optional<StagedModel> staged;
  std::set<std::string>
      aliases;  // names shown to clients, the first is the model's; empty: the file's
  std::set<std::string> tags;  // told in the list of models
  bool metrics = false;        // serve GET /metrics
  bool slots = true;           // serve GET /slots
  bool props = false;          // serve POST /props
  bool jinja = true;
  std::string chat_template;  // overrides the model's; a Jinja text or the name of a built-in one
  std::string reasoning_format = "deepseek";
  bool reasoning = true;  // false: thinking is switched off where the template can
  std::int32_t reasoning_budget = -1;
  std::map<std::string, std::string> template_kwargs;  // variable -> JSON value
  std::uint32_t max_choices =
      64;                       // most completions of one request; each takes a place in the queue
  std::int32_t n_predict = -1;  // default of max_tokens; -1: up to the context
  std::int32_t sse_ping_seconds = 30;
  bool idle_prefill = false;     // evaluate finished turns ahead of the next request
  std::string family;            // the model's, and whether its memory is as that family's
  std::string proof;             // what shows that kept state is exact, in words
  std::string cache_off_reason;  // not empty: kept state was found wrong, so the cache is off
  TenantOptions tenants;
  bool verbose = false;       // answers carry "__verbose" unless a request says otherwise
  bool log_requests = false;  // one JSON line a request on standard output
  bool spm_infill = false;
  common_params_sampling sampling;  // defaults of requests that say nothing
};

class PlanMemo;

class ServerState {
 public:
  ~ServerState();
  // kInvalidArgument: a chat template that does not parse, or an unknown reasoning format.
  static Result<std::unique_ptr<ServerState>> Make(ServerSettings settings,
                                                   const llama::Model& model,
                                                   runtime::Runtime& runtime,
                                                   engine::Engine& engine, const Clock& clock);

  const ServerSettings settings;
  const llama::Model& model;
  const runtime::RuntimeInfo info;  // copied: the runtime belongs to the engine thread
  engine::Engine& engine;
  const Clock& clock;

  const llama_vocab* vocab = nullptr;
  std::string model_name;
  std::int64_t started_unix = 0;  // for scrapers that detect restarts
  common_params params;           // in the form that llama.cpp's request parsing takes
  server_chat_params chat;
  std::vector<llama_logit_bias> logit_bias_eog;
  bool template_knows_tools = false;
  std::size_t longest_piece = 1;  // bytes of the longest token text

  Telemetry telemetry;
  const std::unique_ptr<PlanMemo> plans;  // exact repeats of request bodies
  bool template_asks_date = false;        // rendered chats may differ from day to day
  std::atomic<bool> stopping{false};

  FieldLimits Limits() const;

  // Adapters (index, scale) that requests without a `lora` field use; zero scales are left out.
  using Adapters = std::vector<std::pair<std::uint32_t, float>>;
  Adapters DefaultAdapters() const;
  std::vector<float> AdapterScales() const;
  void SetAdapterScales(std::vector<float> scales);

 private:
  ServerState(ServerSettings given, const llama::Model& loaded, runtime::Runtime& runtime,
              engine::Engine& running, const Clock& time);
  Status InitTemplates();

  mutable std::mutex mutex_;
  std::vector<float> adapter_scales_;
};

}  // namespace skippy::api
