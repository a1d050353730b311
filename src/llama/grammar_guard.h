// Refuses GBNF texts that llama.cpp's grammar code does not survive, before it sees them.
//
// llama.cpp parses groups by recursion on the stack, looks for left recursion by walking every path
// (exponentially many, when rules name each other more than once), and aborts on an llguidance
// grammar that was not compiled in. Other faults of a grammar it reports by itself.
// Threads: any. Errors: kInvalidArgument, kUnsupported. Cost: linear in the text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "skippy/result.h"

struct llama_vocab;

namespace skippy::llama {

inline constexpr std::size_t kMaxGrammarBytes = std::size_t{4} << 20;
inline constexpr int kMaxGrammarNesting = 512;
inline constexpr int kMaxGrammarRules = 20000;
inline constexpr std::size_t kMaxLeftmostDepth = 8000;
inline constexpr std::size_t kMaxLeftmostPaths = std::size_t{1} << 24;

// Size, nesting and number of rules, from the text alone.
Status CheckGrammarText(std::string_view grammar);

// A rule that can begin with other rules, by index: what llama.cpp's search for left recursion
// follows.
using LeftmostRules = std::vector<std::vector<std::size_t>>;
// Whether that search ends within reasonable time and stack. A cycle is left recursion, refused
// too.
Status CheckLeftmostRules(const LeftmostRules& rules);

// Both checks; parses the grammar for the second one.
Status CheckGrammar(const std::string& grammar, const llama_vocab* vocab);

}  // namespace skippy::llama
