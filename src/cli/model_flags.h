// The flags of a model and its runtime, the same in every command that loads one: `serve` finds a
// certificate only where its settings are those of `certify`, defaults included.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/runtime_options.h"
#include "skippy/result.h"

namespace skippy::cli {

struct ModelSetup {
  std::string file;
  std::int32_t gpu_layers = -1;  // -1: all that fit
  bool use_mmap = true;
  std::vector<std::string> rpc_servers;
  runtime::RuntimeOptions runtime;

  bool operator==(const ModelSetup&) const = default;
};

// llama-server's short spellings of these flags.
const std::map<std::string, std::string>& ModelSpellings();

class ModelFlags {
 public:
  // Both must outlive the parse. purpose: what the file is for, as in "the GGUF file to serve".
  void AddTo(CLI::App& app, ModelSetup& setup, const char* purpose);
  // Without --model: for commands that name their files in other ways.
  void AddRuntimeTo(CLI::App& app, ModelSetup& setup);
  // After the parse. kInvalidArgument: no model, or what the parser could not check.
  Status Resolve(ModelSetup& setup) const;
  Status ResolveRuntime(ModelSetup& setup) const;
  // Those of AddRuntimeTo that were given, "--ctx-size"; as long as the app lives.
  std::vector<std::string> GivenRuntime() const;

 private:
  const char* purpose_ = "";
  std::vector<const CLI::Option*> runtime_;
  bool no_mmap_ = false, mmap_ = false;
  std::string gpu_layers_ = "auto";
  std::string flash_attention_ = "auto";
  std::int64_t threads_ = 0, threads_batch_ = 0, batch_ = 0, ubatch_ = 0;
};

}  // namespace skippy::cli
