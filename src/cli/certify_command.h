// The flags of `skippy certify`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "certify/certify.h"
#include "llama/llama_runtime.h"
#include "skippy/prefix_cache.h"
#include "skippy/result.h"

namespace skippy::cli {

struct CertifyOptions {
  std::string model;
  std::int32_t gpu_layers = -1;
  llama::RuntimeOptions runtime;
  std::vector<Exactness> exactness = {Exactness::kBit, Exactness::kToken};
  std::uint64_t seed = 1;
  bool quick = false;
  bool variations = true;
  bool every_row = false;
  std::string json;      // file, or "-": standard output, instead of the table
  std::string markdown;  // the same
  std::string folder;    // of certificates
};

struct ParsedCertify {
  CertifyOptions options;
  bool help = false;
  std::string help_text;
};

// `arguments`: what follows "certify". kInvalidArgument: unknown flag (with the nearest known one),
// a value of the wrong kind or out of range.
Result<ParsedCertify> ParseCertify(std::vector<std::string> arguments);

}  // namespace skippy::cli
