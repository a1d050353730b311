#include "llama/grammar_guard.h"

#include <fmt/format.h>
#include <llama-grammar.h>

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

// The rules that llama_grammar_detect_left_recursion goes into from each rule: the first of each
// alternative, and the next ones as long as the one before has an empty alternative.
LeftmostRules FindLeftmostRules(const llama_grammar_rules& rules) {
  const auto ends = [](const llama_grammar_element& element) {
    return element.type == LLAMA_GRETYPE_END || element.type == LLAMA_GRETYPE_ALT;
  };
  std::vector<bool> may_be_empty(rules.size(), false);
  for (std::size_t r = 0; r < rules.size(); ++r)
    for (std::size_t i = 0; i < rules[r].size(); ++i)
      if (ends(rules[r][i]) && (i == 0 || ends(rules[r][i - 1]))) may_be_empty[r] = true;
  LeftmostRules leftmost(rules.size());
  for (std::size_t r = 0; r < rules.size(); ++r) {
    bool at_start = true;
    for (const llama_grammar_element& element : rules[r]) {
      if (ends(element)) {
        at_start = true;
      } else if (element.type == LLAMA_GRETYPE_RULE_REF && at_start &&
                 element.value < rules.size()) {
        leftmost[r].push_back(element.value);
        at_start = may_be_empty[element.value];
      } else {
        at_start = false;
      }
    }
  }
  return leftmost;
}

// Depth-first with a stack of its own; each rule is finished once.
class PathCounter {
 public:
  explicit PathCounter(const LeftmostRules& rules) : rules_(rules), visits_(rules.size()) {}

  Status Count(std::size_t root) {
    stack_ = {root};
    while (!stack_.empty()) SKIPPY_RETURN_IF_ERROR(Advance());
    return {};
  }

 private:
  struct Visit {
    std::size_t next = 0;   // alternative to go into
    std::size_t paths = 0;  // below this rule; 0: not finished
    std::size_t depth = 1;
    bool open = false;
  };

  Status Advance() {
    const std::size_t rule = stack_.back();
    Visit& visit = visits_[rule];
    visit.open = true;
    if (visit.next < rules_[rule].size() && visit.paths == 0) {
      const std::size_t child = rules_[rule][visit.next];
      if (visits_[child].paths == 0) {
        if (visits_[child].open)
          return Err(ErrorCode::kInvalidArgument, "grammar: a rule begins with itself");
        stack_.push_back(child);
      } else {
        ++visit.next;
      }
      return {};
    }
    std::size_t paths = 1;
    for (const std::size_t child : rules_[rule]) {
      paths = std::min(kMaxLeftmostPaths + 1, paths + visits_[child].paths);
      visit.depth = std::max(visit.depth, visits_[child].depth + 1);
    }
    visit.paths = paths;
    visit.open = false;
    stack_.pop_back();
    if (paths > kMaxLeftmostPaths || visit.depth > kMaxLeftmostDepth)
      return Err(ErrorCode::kInvalidArgument,
                 "grammar: its rules begin with each other in too many ways");
    return {};
  }

  const LeftmostRules& rules_;
  std::vector<Visit> visits_;
  std::vector<std::size_t> stack_;
};

}  // namespace

Status CheckLeftmostRules(const LeftmostRules& rules) {
  PathCounter counter(rules);
  for (std::size_t rule = 0; rule < rules.size(); ++rule)
    SKIPPY_RETURN_IF_ERROR(counter.Count(rule));
  return {};
}

Status CheckGrammar(const std::string& grammar, const llama_vocab* vocab) {
  SKIPPY_RETURN_IF_ERROR(CheckGrammarText(grammar));
  llama_grammar_parser parser(vocab);
  if (!parser.parse(grammar.c_str()) || parser.rules.empty())
    return Err(ErrorCode::kInvalidArgument, "grammar: does not parse");
  return CheckLeftmostRules(FindLeftmostRules(parser.rules));
}

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
