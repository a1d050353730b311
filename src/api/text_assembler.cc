#include "api/text_assembler.h"

#include <algorithm>
#include <optional>

namespace skippy::api {
namespace {

std::size_t SequenceLength(unsigned char first) {
  if (first < 0x80) return 1;
  if ((first & 0xE0U) == 0xC0U) return 2;
  if ((first & 0xF0U) == 0xE0U) return 3;
  if ((first & 0xF8U) == 0xF0U) return 4;
  return 0;  // continuation or invalid
}

unsigned char ByteAt(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// Where a suffix of `text` begins that is a proper, non-empty prefix of `word`.
std::optional<std::size_t> PartialStop(std::string_view text, std::string_view word) {
  const std::size_t longest = std::min(text.size(), word.empty() ? 0 : word.size() - 1);
  for (std::size_t length = longest; length > 0; --length) {
    if (text.ends_with(word.substr(0, length))) return text.size() - length;
  }
  return std::nullopt;
}

}  // namespace

std::size_t CompleteUtf8(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(4, text.size()); ++back) {
    const std::size_t length = SequenceLength(ByteAt(text, text.size() - back));
    if (length == 0) continue;  // a continuation byte: its first byte lies further back
    return length > back ? text.size() - back : text.size();
  }
  return text.size();
}

bool ValidUtf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char first = ByteAt(text, i);
    const std::size_t length = SequenceLength(first);
    if (length == 0 || i + length > text.size()) return false;
    for (std::size_t k = 1; k < length; ++k) {
      if ((ByteAt(text, i + k) & 0xC0U) != 0x80U) return false;
    }
    const unsigned char second = length > 1 ? ByteAt(text, i + 1) : 0;
    // Overlong forms, surrogates and code points past U+10FFFF.
    if (length == 2 && first < 0xC2) return false;
    if (length == 3 && first == 0xE0 && second < 0xA0) return false;
    if (length == 3 && first == 0xED && second >= 0xA0) return false;
    if (length == 4 && first == 0xF0 && second < 0x90) return false;
    if (length == 4 && (first > 0xF4 || (first == 0xF4 && second >= 0x90))) return false;
    i += length;
  }
  return true;
}

TextAssembler::Step TextAssembler::Append(std::string_view piece, bool last) {
  text_ += piece;
  unchecked_ += piece.size();
  if (!last && CompleteUtf8(text_) < text_.size()) return {.send = "", .complete = false};

  const std::string_view unsent = std::string_view(text_).substr(sent_);
  std::optional<std::size_t> stop;
  std::optional<std::size_t> hold;
  for (const std::string& word : stops_) {
    if (word.empty()) continue;
    // A match must end in the bytes that are new since the last look.
    const std::size_t reach = word.size() + unchecked_;
    const std::size_t from = unsent.size() > reach ? unsent.size() - reach : 0;
    const std::size_t at = unsent.find(word, from);
    if (at != std::string_view::npos && (!stop || at < *stop)) {
      stop = at;
      stopping_word_ = word;
    }
    if (const auto partial = PartialStop(unsent, word); partial && (!hold || *partial < *hold)) {
      hold = partial;
    }
  }
  unchecked_ = 0;

  Step step;
  if (stop) {
    step.stopped = true;
    text_.resize(sent_ + *stop);
    step.send = text_.substr(sent_);
  } else {
    step.send = std::string(hold && !last ? unsent.substr(0, *hold) : unsent);
  }
  sent_ += step.send.size();
  has_new_line_ = has_new_line_ || step.send.find('\n') != std::string::npos;
  return step;
}

std::string TextAssembler::Flush() {
  std::string rest = text_.substr(sent_);
  sent_ = text_.size();
  return rest;
}

bool TextAssembler::IndentedTooLittle(std::size_t least_indent) {
  if (!has_new_line_ || least_indent == 0) return false;
  if (line_start_ > 0) {
    std::size_t end = line_start_;
    while (end < text_.size() && (text_[end] == ' ' || text_[end] == '\t')) ++end;
    if (end < text_.size() && end - line_start_ < least_indent) {
      text_.resize(end);
      sent_ = std::min(sent_, end);
      return true;
    }
  }
  if (const std::size_t at = text_.find('\n', line_start_); at != std::string::npos) {
    line_start_ = at + 1;
  }
  return false;
}

}  // namespace skippy::api
