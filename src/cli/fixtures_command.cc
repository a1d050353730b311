// skippy fixtures: writes small models with random weights, see fixtures/fixtures.h.
#include <utility>

#include "cli/commands.h"
#include "fixtures/command.h"

namespace skippy::cli {

int FixturesCommand(std::vector<std::string> arguments) {
  return fixtures::RunCommand("skippy fixtures", std::move(arguments));
}

}  // namespace skippy::cli
