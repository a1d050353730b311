#include "llama/grammar_guard.h"

#include <fmt/format.h>

#include <algorithm>

namespace skippy::llama {
namespace {

// Position behind the literal or character class that opens at `at`; the end of the text if it
// never closes.
std::size_t SkipQuoted(std::string_view text, std::size_t at) {
  const char close = text[at] == '[' ? ']' : '"';
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == close) {
      return at + 1;
    }
  }
  return text.size();
}

}  // namespace

Status CheckGrammarText(std::string_view grammar) {
  if (grammar.starts_with("%llguidance"))
    return Err(ErrorCode::kUnsupported,
               "grammar: %llguidance grammars are not supported by this build");
  if (grammar.size() > kMaxGrammarBytes)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("grammar: {} bytes is more than {}", grammar.size(), kMaxGrammarBytes));
  if (grammar.find('\0') != std::string_view::npos)
    return Err(ErrorCode::kInvalidArgument, "grammar: contains a zero byte");
  int nesting = 0;
  int rules = 0;
  for (std::size_t at = 0; at < grammar.size();) {
    switch (grammar[at]) {
      case '"':
      case '[': at = SkipQuoted(grammar, at); continue;
      case '#': at = std::min(grammar.find('\n', at), grammar.size()); continue;
      case '(': ++nesting; break;
      case ')': --nesting; break;
      case ':': rules += grammar.substr(at, 3) == "::=" ? 1 : 0; break;
      default: break;
    }
    if (nesting > kMaxGrammarNesting)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("grammar: more than {} nested groups", kMaxGrammarNesting));
    if (rules > kMaxGrammarRules)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("grammar: more than {} rules", kMaxGrammarRules));
    ++at;
  }
  return {};
}

}  // namespace skippy::llama
