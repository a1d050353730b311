// Refuses GBNF texts that llama.cpp's parser cannot survive, before it sees them.
//
// llama.cpp parses groups and looks for left recursion by recursion on the stack, and aborts on an
// llguidance grammar that was not compiled in. Everything else that is wrong with a grammar it
// reports by itself. Threads: any. Errors: kInvalidArgument, kUnsupported. Cost: one pass over the
// text.
#pragma once

#include <string_view>

#include "skippy/result.h"

namespace skippy::llama {

inline constexpr std::size_t kMaxGrammarBytes = std::size_t{4} << 20;
inline constexpr int kMaxGrammarNesting = 512;
inline constexpr int kMaxGrammarRules = 20000;

Status CheckGrammarText(std::string_view grammar);

}  // namespace skippy::llama
