#include "api/message_boundaries.h"

#include <algorithm>
#include <optional>

namespace skippy::api {
namespace {

// Enough of a content to find it; a bound on the cost of texts that nearly match everywhere.
constexpr std::size_t kNeedleBytes = 256;
constexpr int kMaxMisses = 64;
constexpr Pos kLeastPrefix = 16;  // tokens; fewer are evaluated faster than a state is kept

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// The texts of a content: one, or one a part.
std::vector<std::string> Texts(const Json& message) {
  if (!Has(message, "content")) return {};
  const Json& content = message.at("content");
  if (content.is_string()) return {content.get<std::string>()};
  std::vector<std::string> texts;
  if (!content.is_array()) return texts;
  for (const Json& part : content)
    if (part.is_object()) texts.push_back(StringOr(part, "text"));
  return texts;
}

class Finder {
 public:
  explicit Finder(std::string_view prompt) : prompt_(prompt) {}

  // Where the text begins behind what was found before.
  std::optional<std::size_t> Next(std::string_view text) {
    const std::string_view needle = text.substr(0, kNeedleBytes);
    const std::size_t at = prompt_.find(needle, end_);
    if (at == std::string_view::npos) {
      ++misses_;
      return std::nullopt;
    }
    const bool whole = prompt_.substr(at, text.size()) == text;
    end_ = at + (whole ? text.size() : needle.size());
    return at;
  }
  std::size_t end() const { return end_; }
  bool TooManyMisses() const { return misses_ >= kMaxMisses; }

 private:
  std::string_view prompt_;
  std::size_t end_ = 0;  // of what was found last
  int misses_ = 0;
};

}  // namespace

std::vector<std::size_t> MessageBoundaries(const Json& messages, std::string_view prompt) {
  std::vector<std::size_t> boundaries;
  if (!messages.is_array()) return boundaries;
  Finder finder(prompt);
  for (const Json& message : messages) {
    bool begun = false;
    for (const std::string& part : Texts(message)) {
      if (finder.TooManyMisses()) break;
      const std::string_view text = Trimmed(part);
      if (text.empty()) continue;
      const auto at = finder.Next(text);
      if (at && !begun) boundaries.push_back(*at);
      begun = begun || at.has_value();
    }
  }
  if (!boundaries.empty()) boundaries.push_back(finder.end());
  return boundaries;
}

std::vector<Pos> TokenBoundaries(std::span<const std::string> pieces, std::string_view prompt,
                                 std::span<const std::size_t> offsets) {
  if (offsets.empty()) return {};
  std::string text;
  std::vector<std::size_t> ends;
  ends.reserve(pieces.size());
  for (const std::string& piece : pieces) ends.push_back((text += piece).size());
  // Tokenizers put a first token or a space before the text, and sometimes a last token behind it.
  const std::size_t shift = text.find(prompt);
  if (shift == std::string::npos) return {};
  std::vector<Pos> tokens;
  for (const std::size_t offset : offsets) {
    const auto token =
        static_cast<Pos>(std::upper_bound(ends.begin(), ends.end(), offset + shift) - ends.begin());
    if (token < kLeastPrefix || token >= pieces.size()) continue;
    if (tokens.empty() || tokens.back() < token) tokens.push_back(token);
  }
  return tokens;
}

}  // namespace skippy::api
