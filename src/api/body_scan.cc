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

}  // namespace skippy::api
