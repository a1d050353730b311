// What all commands do with their arguments: llama-server's spellings, --help, and clear words for
// what is no flag.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "skippy/result.h"

namespace skippy::cli {

// llama-server's short spellings have several letters, which the library takes for bundles of
// one-letter flags; so they are replaced before it sees them.
struct FlagWords {
  std::map<std::string, std::string> spellings;  // what may be written -> the flag
  std::map<std::string, std::string> refused;    // flags of llama-server -> why not here
};

// Fills what the app's flags are bound to. A text: that of --help, which was asked for.
// kInvalidArgument: an unknown flag (with the nearest known one), a refused one, a value of the
// wrong kind or out of range.
Result<std::optional<std::string>> ParseFlags(CLI::App& app, std::vector<std::string> arguments,
                                              const FlagWords& words);

}  // namespace skippy::cli
