// Text of one answer as it grows token by token: completes UTF-8 characters, finds stop strings,
// and holds back what may yet turn into one. Same results as llama-server; what it holds back at
// the end it gives out.
//
// Single-threaded (its owner). Cost of a step: O(unsent text x stop strings).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace skippy::api {

class TextAssembler {
 public:
  explicit TextAssembler(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  struct Step {
    std::string send;      // text that may go out now
    bool complete = true;  // false: the text ends within a character; nothing was sent
    bool stopped = false;  // a stop string was found; it and what follows are cut off
  };
  // `last`: no more text will come (end-of-generation token), so nothing is held back.
  Step Append(std::string_view piece, bool last);

  // What was held back, when generation ends without a stop string.
  std::string Flush();

  const std::string& text() const { return text_; }
  const std::string& stopping_word() const { return stopping_word_; }
  bool has_new_line() const { return has_new_line_; }

  // llama-server's n_indent: true when a line begins with less indentation than asked for; the
  // line's rest is cut off. Call once a step.
  bool IndentedTooLittle(std::size_t least_indent);

 private:
  std::vector<std::string> stops_;
  std::string text_;
  std::string stopping_word_;
  std::size_t sent_ = 0;
  std::size_t unchecked_ = 0;  // bytes appended since stop strings were last looked for
  std::size_t line_start_ = 0;
  bool has_new_line_ = false;
};

// Length of the longest prefix of `text` that does not end within a UTF-8 character.
std::size_t CompleteUtf8(std::string_view text);
// Whether the whole text is valid UTF-8.
bool ValidUtf8(std::string_view text);

}  // namespace skippy::api
