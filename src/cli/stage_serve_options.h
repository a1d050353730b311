// The flags of `skippy stage serve`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/model_flags.h"
#include "skippy/result.h"

namespace skippy::cli {

struct StageServeOptions {
  std::vector<std::string> packages;  // folders; at least one
  std::string listen = "127.0.0.1:7071";
  ModelSetup setup;  // its file is not used
  std::uint64_t cache_ram_mib = 0;
  std::string secret;       // empty: none
  std::string certificate;  // PEM files; both or none
  std::string key;
  std::vector<std::string> peers;  // addresses of other stage servers that may have kept state
  std::string peers_ca;            // empty: no TLS to them
  bool verbose = false;            // llama.cpp's own log on standard error
};

struct ParsedStageServe {
  StageServeOptions options;
  std::optional<std::string> help;  // --help was asked for: the text
};

// `arguments`: what follows "stage serve". Errors as ParseServe's.
Result<ParsedStageServe> ParseStageServe(std::vector<std::string> arguments);

}  // namespace skippy::cli
