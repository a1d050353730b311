// The flags of `skippy serve` for a model whose layers are elsewhere.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/wire.h"
#include "skippy/result.h"

namespace skippy::cli {

struct StagesSetup {
  std::vector<std::string> addresses;  // none: the model is here
  std::string secret;                  // empty: none
  std::string ca_file;                 // empty: no TLS
  std::uint32_t timeout_seconds = 600;
  pipeline::WireFormat wire = pipeline::WireFormat::kF32;
  std::uint64_t activations_mib = 0;
  bool on() const { return !addresses.empty(); }
};

class StagesFlags {
 public:
  // Both must outlive the parse.
  void AddTo(CLI::App& app, StagesSetup& setup);
  // After the parse. kInvalidArgument: a flag without --stages, a secret that cannot be read.
  Status Resolve(StagesSetup& setup) const;

 private:
  CLI::Option* Add(CLI::Option* option);

  const CLI::Option* option_ = nullptr;
  std::vector<const CLI::Option*> others_;  // that mean nothing without --stages
  std::string stages_, secret_file_, wire_ = "f32";
};

}  // namespace skippy::cli
