// The `skippy` command: finds the subcommand and runs it.
#include <pthread.h>

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "build-info.h"
#include "cli/commands.h"
#include "cli/flag_suggest.h"

namespace skippy::cli {
namespace {

constexpr const char* kUsage =
    "Usage: skippy COMMAND [FLAGS]\n"
    "\n"
    "  serve           serve a GGUF model over an OpenAI-compatible HTTP API\n"
    "  certify         evidence that a model's kept state gives what a cold run gives\n"
    "  bench compare   this program against llama-server\n"
    "  bench micro     what moving a model's state costs\n"
    "  bench replay    a trace of requests under eviction policies and caps\n"
    "  cache status    what a running server's prefix cache holds and has done\n"
    "  families        the model families that are known, or which one a model file is of\n"
    "  stage split     cut a model into packages of layers, for several machines\n"
    "  stage serve     serve such a package to the model's coordinator, `serve --stages`\n"
    "  stage certify   evidence that a stage's kept state gives what computing gives\n"
    "  stage wires     how much each wire between stages moves the logits\n"
    "  fixtures        write small random-weight models of many families, for tests\n"
    "  version         versions of this program and of the llama.cpp in it\n"
    "\n"
    "skippy COMMAND --help tells the flags. Exit codes: 0 success, 1 not so, 2 bad usage or bad "
    "input.\n";

// Parsers of llama.cpp recurse on the request; their threads get room for what the limits let
// through. The memory is only reserved, not used.
void GiveThreadsRoom() {
  constexpr std::size_t kStackBytes = std::size_t{128} << 20U;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  if (pthread_attr_setstacksize(&attributes, kStackBytes) == 0)
    pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

int Main(std::vector<std::string> arguments) {
  if (arguments.empty()) {
    std::fprintf(stderr, "%s", kUsage);
    return 2;
  }
  const std::string command = arguments.front();
  arguments.erase(arguments.begin());
  if (command == "serve") return Serve(std::move(arguments));
  if (command == "certify") return CertifyCommand(std::move(arguments));
  if (command == "bench") return BenchCommand(std::move(arguments));
  if (command == "cache") return CacheCommand(std::move(arguments));
  if (command == "families") return FamiliesCommand(std::move(arguments));
  if (command == "stage") return StageCommand(std::move(arguments));
  if (command == "fixtures") return FixturesCommand(std::move(arguments));
  if (command == "version" || command == "--version") return Version(arguments);
  if (command == "help" || command == "--help" || command == "-h") {
    std::printf("%s", kUsage);
    return 0;
  }
  const auto nearest = NearestFlag(command, {"serve", "certify", "bench", "cache", "families",
                                             "stage", "fixtures", "version", "help"});
  std::fprintf(stderr, "skippy: unknown command '%s'%s\n\n%s", command.c_str(),
               nearest ? ("; did you mean " + *nearest + "?").c_str() : "", kUsage);
  return 2;
}

}  // namespace

int Version(const std::vector<std::string>& arguments) {
  if (!arguments.empty()) {
    std::fprintf(stderr, "skippy version: takes no arguments\n");
    return 2;
  }
  std::printf("skippy %s (llama.cpp %s)\n", SKIPPY_VERSION, llama_build_info());
  return 0;
}

}  // namespace skippy::cli

// What nothing below has caught, which is memory that ran out.
int main(int argc, char** argv) try {
  skippy::cli::GiveThreadsRoom();
  return skippy::cli::Main(std::vector<std::string>(argv + 1, argv + argc));
} catch (const std::bad_alloc&) {
  std::fprintf(stderr, "skippy: there is not enough memory for this\n");
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "skippy: %s\n", error.what());
  return 1;
}
