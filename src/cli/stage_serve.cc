// skippy stage serve: loads stages of a model, answers their coordinator until told to stop.
#include <fmt/format.h>

#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cli/signals.h"
#include "cli/stage_command.h"
#include "cli/stage_serve_options.h"
#include "cli/start_lines.h"
#include "pipeline/piece_source.h"
#include "pipeline/piece_store.h"
#include "pipeline/stage_host.h"
#include "rpc/address.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "stage/load.h"

namespace skippy::cli {
namespace {

constexpr const char* kCommand = "skippy stage serve";

// Everything that lives as long as the server; destroyed in reverse order.
struct Loaded {
  explicit Loaded(std::uint64_t cache_bytes) : store(cache_bytes) {}

  pipeline::PieceStore store;
  std::vector<std::unique_ptr<pipeline::PieceSource>> peers;
  std::vector<stage::LoadedStage> stages;
  std::vector<std::unique_ptr<pipeline::StageHost>> hosts;
};

// All of them first: a wrong folder is told before hours of loading another one.
Status CheckPackages(const std::vector<std::string>& folders) {
  std::vector<stage::Manifest> manifests;
  for (const std::string& folder : folders) {
    SKIPPY_TRY(stage::Manifest manifest, stage::ReadManifest(folder));
    if (manifest.kind != "stage")
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("'{}' is the model's vocabulary, which the coordinator needs "
                             "(`skippy serve --stages`), and no stage",
                             folder));
    for (const stage::Manifest& other : manifests) {
      if (other.model != manifest.model)
        return Err(ErrorCode::kInvalidArgument,
                   fmt::format("'{}' is of another model ({}) than the packages before it ({}): "
                               "serve each model in a process of its own",
                               folder, manifest.model.name, other.model.name));
      if (manifest.layers.begin < other.layers.end && other.layers.begin < manifest.layers.end)
        return Err(ErrorCode::kInvalidArgument,
                   fmt::format("'{}': another package has layers of {} too", folder,
                               ToString(manifest.layers)));
    }
    manifests.push_back(std::move(manifest));
  }
  return {};
}

Status Load(const StageServeOptions& options, Loaded& loaded) {
  SKIPPY_RETURN_IF_ERROR(CheckPackages(options.packages));
  for (const std::string& address : options.peers) {
    rpc::ClientOptions client;
    client.secret = options.secret;
    client.tls_ca_file = options.peers_ca;
    SKIPPY_TRY(auto peer, rpc::PiecesAt(address, client));
    loaded.peers.push_back(std::move(peer));
  }
  for (const std::string& folder : options.packages) {
    SKIPPY_TRY(stage::LoadedStage stage,
               stage::LoadStage(folder, {.runtime = options.setup.runtime,
                                         .gpu_layers = options.setup.gpu_layers,
                                         .use_mmap = options.setup.use_mmap}));
    loaded.stages.push_back(std::move(stage));
  }
  std::vector<pipeline::PieceSource*> peers;
  for (const std::unique_ptr<pipeline::PieceSource>& peer : loaded.peers)
    peers.push_back(peer.get());
  for (stage::LoadedStage& stage : loaded.stages)
    loaded.hosts.push_back(std::make_unique<pipeline::StageHost>(
        stage::PackageOf(stage.manifest), *stage.runtime.runtime, loaded.store, peers));
  return {};
}

std::string Through(const stage::Boundary& boundary, const char* otherwise) {
  return boundary.node.empty() && otherwise != nullptr ? otherwise
                                                       : fmt::format("rows of {}", boundary.width);
}

void SayStage(const stage::LoadedStage& stage, bool keeps) {
  const stage::Manifest& manifest = stage.manifest;
  const runtime::RuntimeInfo& info = stage.runtime.runtime->info();
  Say(fmt::format("  stage     layers {} of {}, {} -> {}", ToString(manifest.layers),
                  manifest.model.layers, Through(manifest.input, nullptr),
                  Through(manifest.output, "logits")));
  Say(fmt::format("  memory    {}", MemoryLine(info.shape)));
  if (info.policy == PayloadPolicy::kOff)
    Say(fmt::format("  cache     off: {}", info.policy_reason));
  else if (!keeps)
    Say("  cache     off (--cache-ram 0)");
}

void SayStart(const StageServeOptions& options, const Loaded& loaded, std::uint16_t port) {
  const stage::ModelRecord& model = loaded.stages.front().manifest.model;
  Say(fmt::format("skippy: serving {} of {}",
                  loaded.stages.size() == 1
                      ? "stage " + ToString(loaded.stages.front().manifest.layers)
                      : fmt::format("{} stages", loaded.stages.size()),
                  model.name));
  Say(fmt::format("  model     {} ({}), {} layers, digest {}", model.name, model.architecture,
                  model.layers, model.digest.ShortHex()));
  const bool keeps = options.cache_ram_mib > 0;
  for (const stage::LoadedStage& stage : loaded.stages) SayStage(stage, keeps);
  if (keeps) Say(fmt::format("  cache     {} MiB for what is kept", options.cache_ram_mib));
  for (const std::string& peer : options.peers)
    Say(fmt::format("  peer      {}: asked for what is not here", peer));
  const runtime::RuntimeInfo& info = loaded.stages.front().runtime.runtime->info();
  Say(fmt::format("  lanes     {} x {} tokens of context, chunks of {}", info.lanes, info.context,
                  info.chunk));
  const auto listen = rpc::ParseAddress(options.listen);
  const std::string host = listen ? listen->host : options.listen;
  Say(fmt::format("  address   {}{}{}", rpc::HostPort(host, port),
                  options.certificate.empty() ? "" : ", TLS",
                  options.secret.empty() ? "" : ", secret needed"));
  if (listen && !rpc::IsLoopback(host) && options.certificate.empty())
    Say("  WARNING   nothing is encrypted: whoever sees the traffic has the secret and can guess "
        "the text from the activations: give --tls-cert and --tls-key, or use a private network");
}

}  // namespace

int StageServe(std::vector<std::string> arguments) {
  std::setlocale(LC_NUMERIC, "C");
  const auto parsed = ParseStageServe(std::move(arguments));
  if (!parsed) return FailedToStart(kCommand, parsed.error());
  if (parsed->help) {
    std::printf("%s", parsed->help->c_str());
    return 0;
  }
  const StageServeOptions& options = parsed->options;
  InstallStopSignals();
  if (options.verbose) setenv("SKIPPY_LLAMA_LOG", "info", 0);

  Loaded loaded(options.cache_ram_mib << 20U);
  if (const Status status = Load(options, loaded); !status)
    return FailedToStart(kCommand, status.error());
  rpc::ServerOptions serving;
  serving.address = options.listen;
  for (const auto& host : loaded.hosts) serving.hosts.push_back(host.get());
  serving.pieces = &loaded.store;
  serving.secret = options.secret;
  if (!options.certificate.empty()) serving.tls = {options.certificate, options.key};
  rpc::StageServer server;
  const auto port = server.Start(serving);
  if (!port) return FailedToStart(kCommand, port.error());
  SayStart(options, loaded, *port);

  WaitForStop();
  Say("skippy: stopping");
  server.Stop();
  return 0;
}

}  // namespace skippy::cli
