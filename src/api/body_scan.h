// A look at the raw bytes of a JSON body before any parser sees it, for the shapes that make parsers of
// trees fall over: nesting (they recurse when they copy and print) and objects with very many members
// (llama.cpp's ordered objects are searched linearly). Pure; O(bytes); says nothing about valid syntax.
#pragma once

#include <cstddef>
#include <string_view>

#include "api/errors.h"

namespace skippy::api {

inline constexpr std::size_t kMaxNesting = 100;
inline constexpr std::size_t kMaxMembers = 20'000;

// 400 with the offset when the text nests deeper or has larger objects than the limits.
ApiStatus ScanJson(std::string_view text, std::string_view what = "the request body");

// Deepest nesting of the given bracket pair, strings and escapes not regarded: an upper bound that serves
// for grammars and regular expressions, whose parsers recurse on parentheses.
std::size_t BracketDepth(std::string_view text, char open, char close);

}  // namespace skippy::api
