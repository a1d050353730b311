// The flags of `skippy certify`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/model_flags.h"
#include "skippy/prefix_cache.h"
#include "skippy/result.h"

namespace skippy::cli {

struct CertifyOptions {
  ModelSetup model;
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
  std::optional<std::string> help;  // --help was asked for: the text
};

// `arguments`: what follows "certify". kInvalidArgument: unknown flag (with the nearest known one),
// a value of the wrong kind or out of range.
Result<ParsedCertify> ParseCertify(std::vector<std::string> arguments);

}  // namespace skippy::cli
