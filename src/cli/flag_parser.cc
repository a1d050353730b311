#include "cli/flag_parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/flag_suggest.h"

namespace skippy::cli {
namespace {

Status CheckUnknown(const CLI::App& app, const FlagWords& words) {
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) return {};
  const std::string& unknown = extras.front();
  if (unknown.empty() || unknown.front() != '-') {
    const bool model = app.get_option_no_throw("--model") != nullptr;
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}' is not a flag; {}", unknown,
                           model ? "the model is given with --model FILE" : "see --help"));
  }
  const std::string name = unknown.substr(0, unknown.find('='));
  if (const auto it = words.refused.find(name); it != words.refused.end()) {
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("{} is not supported: {}", name, it->second));
  }
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& flag : option->get_lnames()) known.push_back("--" + flag);
  }
  for (const auto& [spelling, flag] : words.spellings) known.push_back(spelling);
  const auto nearest = NearestFlag(name, known);
  return Err(ErrorCode::kInvalidArgument,
             nearest ? fmt::format("unknown flag {}; did you mean {}?", name, *nearest)
                     : fmt::format("unknown flag {}; see {} --help", name, app.get_name()));
}

}  // namespace

Result<std::optional<std::string>> ParseFlags(CLI::App& app, std::vector<std::string> arguments,
                                              const FlagWords& words) {
  for (std::string& argument : arguments) {
    const auto it = words.spellings.find(argument);
    if (it != words.spellings.end()) argument = it->second;
  }
  app.allow_extras();
  app.set_help_flag("--help", "this text");
  std::reverse(arguments.begin(), arguments.end());  // the library pops from the back
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    return std::optional<std::string>(app.help());
  } catch (const CLI::ParseError& error) {
    return Err(ErrorCode::kInvalidArgument, error.what());
  }
  SKIPPY_RETURN_IF_ERROR(CheckUnknown(app, words));
  return std::optional<std::string>();
}

}  // namespace skippy::cli
