// skippy_sim --seed=N [--runs=M] [--mode=all|sim|economy] [--verbose]: simulated runs of seeds N,
// N+1, ... Exit code 0: all right; 1: a run failed (its seed is printed); 2: bad usage.
#include <fmt/core.h>

#include <charconv>
#include <string>
#include <string_view>

#include "simulation.h"

namespace {

struct Arguments {
  std::uint64_t seed = 1;
  std::uint64_t runs = 1;
  bool simulate = true;
  bool economy = true;
  bool verbose = false;
};

bool ParseNumber(std::string_view text, std::uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

bool Parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--seed=")) {
      if (!ParseNumber(argument.substr(7), arguments.seed)) return false;
    } else if (argument.starts_with("--runs=")) {
      if (!ParseNumber(argument.substr(7), arguments.runs)) return false;
    } else if (argument == "--mode=sim") {
      arguments.economy = false;
    } else if (argument == "--mode=economy") {
      arguments.simulate = false;
    } else if (argument == "--verbose") {
      arguments.verbose = true;
    } else if (argument != "--mode=all") {
      return false;
    }
  }
  return true;
}

bool Report(const char* mode, std::uint64_t seed, const skippy::sim::RunResult& result,
            bool verbose) {
  if (verbose || !result.ok()) {
    fmt::print(
        "{} seed={} {}\n  requests={} cached={} evaluated={} ideal={} faults={} trace={:016x}\n",
        mode, seed, result.world, result.requests, result.cached_tokens, result.evaluated_tokens,
        result.ideal_tokens, result.faults, result.trace);
  }
  if (result.ok()) return true;
  fmt::print("  FAILED: {}\n  replay: skippy_sim --seed={} --mode={}\n", result.failure, seed,
             mode);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, arguments)) {
    fmt::print(stderr,
               "usage: skippy_sim --seed=N [--runs=M] [--mode=all|sim|economy] [--verbose]\n");
    return 2;
  }
  std::uint64_t failed = 0;
  std::uint64_t requests = 0;
  for (std::uint64_t i = 0; i < arguments.runs; ++i) {
    const std::uint64_t seed = arguments.seed + i;
    if (arguments.simulate) {
      const skippy::sim::RunResult result = skippy::sim::RunSimulation(seed);
      requests += result.requests;
      failed += Report("sim", seed, result, arguments.verbose) ? 0 : 1;
    }
    if (arguments.economy) {
      const skippy::sim::RunResult result = skippy::sim::RunEconomy(seed);
      requests += result.requests;
      failed += Report("economy", seed, result, arguments.verbose) ? 0 : 1;
    }
  }
  fmt::print("{} runs from seed {}: {} requests, {} failures\n", arguments.runs, arguments.seed,
             requests, failed);
  return failed == 0 ? 0 : 1;
}
