// skippy stage wires: what each wire between stages does to a model's logits.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/certify_subject.h"
#include "cli/flag_parser.h"
#include "cli/outcome.h"
#include "cli/stage_command.h"
#include "llama/text_tokens.h"
#include "skippy/random.h"
#include "stage/load.h"
#include "stage/wire_table.h"

namespace skippy::cli {
namespace {

constexpr std::uint64_t kSeed = 1;

struct Options {
  std::string packages;
  Pos tokens = 192;
  std::string json;
  stage::WireTableOptions table;
};

constexpr const char* kCommand = "skippy stage wires";

int Failed(const Error& error) { return FailedWith(kCommand, error); }

// The token that a model expects in front of every text, where its file says that it does: without
// it some models' logits are those of no text at all.
std::vector<Token> FirstToken(const std::string& vocabulary) {
  const auto source = stage::Source::Open(vocabulary + "/" + stage::kSliceName);
  if (!source) return {};
  const auto& numbers = (*source)->facts().numbers;
  const auto wanted = numbers.find("tokenizer.ggml.add_bos_token");
  const auto token = numbers.find("tokenizer.ggml.bos_token_id");
  if (wanted == numbers.end() || token == numbers.end() || token->second.values.empty()) return {};
  if (wanted->second.values != std::vector<double>{1}) return {};
  return {static_cast<Token>(token->second.values.front())};
}

Status DrawnTokens(Options& options, const std::string& why) {
  SKIPPY_TRY(const auto table, stage::EmbeddingTable::Open(options.table.vocabulary));
  for (Pos i = 0; i < options.tokens; ++i)
    options.table.tokens.push_back(static_cast<Token>(SplitMix64(kSeed ^ i) % table->tokens()));
  options.table.text = fmt::format("the vocabulary, drawn ({})", why);
  return {};
}

Status Text(Options& options) {
  const auto vocabulary = stage::LoadVocabulary(options.table.vocabulary);
  if (!vocabulary && vocabulary.error().code == ErrorCode::kUnsupported)
    return DrawnTokens(options, "the model has no tokenizer");
  if (!vocabulary) return tl::unexpected<Error>(vocabulary.error());
  const llama::Model& model = *vocabulary->model;
  if (const auto some = llama::TokensOfText(model, "The river rose."); !some || some->empty())
    return DrawnTokens(options, "its tokenizer makes nothing of text");
  std::vector<Token>& tokens = options.table.tokens;
  tokens = FirstToken(options.table.vocabulary);
  const std::size_t first = tokens.size();
  const std::vector<Token> sentences = SentenceSource(model)(options.tokens - first, kSeed);
  tokens.insert(tokens.end(), sentences.begin(), sentences.end());
  options.table.text = fmt::format("everyday sentences, seed {}{}", kSeed,
                                   first > 0 ? ", behind the model's first token" : "");
  return {};
}

void AddFlags(CLI::App& app, Options& options) {
  app.add_option("--packages", options.packages,
                 "the folder that `skippy stage split` wrote: vocabulary and all stages")
      ->required();
  app.add_option("--tokens", options.tokens,
                 fmt::format("tokens of text; the logits of the last {} are compared",
                             options.table.positions))
      ->check(CLI::Range(options.table.positions + 1, 1U << 20U));
  app.add_option("--threads,-t", options.table.runtime.threads, "compute threads")
      ->check(CLI::Range(1U, 1024U));
  app.add_option("--json", options.json, "write the table to this file; -: standard output");
}

Result<stage::WireTable> Measure(Options& options) {
  SKIPPY_TRY(options.table.stages, stage::StagesIn(options.packages));
  SKIPPY_TRY(options.table.vocabulary, stage::FindVocabulary(options.packages));
  options.table.runtime.context = options.tokens;
  SKIPPY_RETURN_IF_ERROR(Text(options));
  return stage::MeasureWires(options.table);
}

}  // namespace

int StageWires(std::vector<std::string> arguments) {
  Options options;
  CLI::App app(
      "How much each wire between stages (`skippy serve --stage-wire`), and a change of one unit "
      "in "
      "the\nlast place, move the logits of a model. Exit codes: 0 measured, 1 the exact wire is "
      "not "
      "exact,\n2 bad usage or bad input.",
      kCommand);
  AddFlags(app, options);
  const auto help = ParseFlags(app, std::move(arguments), {});
  if (!help) return Failed(help.error());
  if (*help) {
    std::printf("%s", (*help)->c_str());
    return 0;
  }
  const auto table = Measure(options);
  if (!table) return Failed(table.error());
  const bool to_output = options.json == "-";
  std::printf("%s", (to_output ? stage::ToJson(*table) : stage::ToText(*table)).c_str());
  if (to_output) return table->Passed() ? 0 : 1;
  if (const int code = WriteJsonFile(kCommand, options.json, stage::ToJson(*table)); code != 0)
    return code;
  return table->Passed() ? 0 : 1;
}

}  // namespace skippy::cli
