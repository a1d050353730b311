// A look at the raw bytes of a JSON body before any parser sees it, for the shapes that make
// parsers of trees fall over: nesting (they recurse when they copy and print) and objects with very
// many members (llama.cpp's ordered objects are searched linearly). Pure; O(bytes); says nothing
// about valid syntax.
#pragma once

#include <cstddef>
#include <string_view>

#include "api/errors.h"

namespace skippy::api {

inline constexpr std::size_t kMaxNesting = 100;
inline constexpr std::size_t kMaxMembers = 20'000;

// 400 with the offset when the text nests deeper or has larger objects than the limits.
ApiStatus ScanJson(std::string_view text, std::string_view what = "the request body");

// Deepest nesting of the given bracket pair, strings and escapes not regarded: an upper bound that
// serves for grammars and regular expressions, whose parsers recurse on parentheses.
std::size_t BracketDepth(std::string_view text, char open, char close);

// Length of the longest stretch that is all white space, or without any. Tokenizers split text with
// std::regex, which recurses once a character of a word.
std::size_t LongestStretch(std::string_view text);

// Bytes of a stretch that every tokenizer gets through on the stack that threads have
// (cli/main.cc).
inline constexpr std::size_t kMaxStretch = 250'000;

// What makes a GBNF grammar slow: sampling tries every token of the vocabulary against every
// alternative that is open, and every element of a character class, on the thread that serves all
// requests.
struct GrammarShape {
  std::size_t alternatives = 0;  // most "|" of one rule
  std::size_t class_bytes = 0;   // longest [...]
};
GrammarShape MeasureGrammar(std::string_view grammar);

inline constexpr std::size_t kMaxAlternatives = 1000;
inline constexpr std::size_t kMaxClassBytes = 4096;

}  // namespace skippy::api
