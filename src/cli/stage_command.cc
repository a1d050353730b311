// skippy stage: finds the subcommand and runs it.
#include "cli/stage_command.h"

#include <cstdio>

#include "cli/commands.h"

namespace skippy::cli {

int StageCommand(std::vector<std::string> arguments) {
  const std::string what = arguments.empty() ? "" : arguments.front();
  if (!arguments.empty()) arguments.erase(arguments.begin());
  if (what == "split") return StageSplit(std::move(arguments));
  if (what == "serve") return StageServe(std::move(arguments));
  if (what == "certify") return StageCertify(std::move(arguments));
  if (what == "wires") return StageWires(std::move(arguments));
  const bool help = what == "--help" || what == "-h";
  std::fprintf(
      help ? stdout : stderr,
      "Usage: skippy stage split --model M.gguf --out DIR "
      "(--layers A..B,B..C | --auto N | --max-bytes BYTES) [FLAGS]\n"
      "       skippy stage serve --package DIR/stage-A..B [FLAGS]\n"
      "       skippy stage certify --package DIR/stage-A..B [FLAGS]\n"
      "       skippy stage wires --packages DIR [FLAGS]\n\n"
      "  split    cuts a model into packages of layers, without loading it\n"
      "  serve    serves layers to the coordinator of the model, `skippy serve --stages`\n"
      "  certify  evidence that what a stage's cache brings back is what it would compute\n"
      "  wires    how much each wire between stages (--stage-wire) moves the model's logits\n");
  return help ? 0 : 2;
}

}  // namespace skippy::cli
