#include "api/body_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace skippy::api {

ApiStatus ScanJson(std::string_view text, std::string_view what) {
  struct Level {
    bool object;
    std::size_t commas;
  };
  std::vector<Level> levels;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
      continue;
    }
    switch (c) {
      case '"': in_string = true; break;
      case '{':
      case '[':
        levels.push_back({c == '{', 0});
        if (levels.size() > kMaxNesting) {
          return BadRequest(
              fmt::format("{} is nested deeper than {} levels (at byte {})", what, kMaxNesting, i));
        }
        break;
      case '}':
      case ']':
        if (!levels.empty()) levels.pop_back();
        break;
      case ',':
        if (!levels.empty() && levels.back().object && ++levels.back().commas >= kMaxMembers) {
          return BadRequest(fmt::format("{} has an object with more than {} members (at byte {})",
                                        what, kMaxMembers, i));
        }
        break;
      default: break;
    }
  }
  return {};
}

std::size_t BracketDepth(std::string_view text, char open, char close) {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  for (const char c : text) {
    if (c == open) {
      deepest = std::max(deepest, ++depth);
    } else if (c == close && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

std::size_t LongestStretch(std::string_view text) {
  std::size_t longest = 0;
  std::size_t length = 0;
  bool spaces = false;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    length = space == spaces ? length + 1 : 1;
    spaces = space;
    longest = std::max(longest, length);
  }
  return longest;
}

GrammarShape MeasureGrammar(std::string_view grammar) {
  enum class Inside : char { kNothing, kLiteral, kClass, kComment };
  GrammarShape shape;
  Inside inside = Inside::kNothing;
  std::size_t bars = 0;
  std::size_t class_begin = 0;
  for (std::size_t i = 0; i < grammar.size(); ++i) {
    const char c = grammar[i];
    if (inside == Inside::kComment) {
      if (c == '\n') inside = Inside::kNothing;
    } else if (c == '\\') {
      ++i;
    } else if (inside == Inside::kLiteral) {
      if (c == '"') inside = Inside::kNothing;
    } else if (inside == Inside::kClass) {
      shape.class_bytes = std::max(shape.class_bytes, i - class_begin);
      if (c == ']') inside = Inside::kNothing;
    } else if (c == '"') {
      inside = Inside::kLiteral;
    } else if (c == '[') {
      inside = Inside::kClass;
      class_begin = i;
    } else if (c == '#') {
      inside = Inside::kComment;
    } else if (c == '|') {
      shape.alternatives = std::max(shape.alternatives, ++bars);
    } else if (grammar.substr(i, 3) == "::=") {
      bars = 0;
    }
  }
  return shape;
}

}  // namespace skippy::api
