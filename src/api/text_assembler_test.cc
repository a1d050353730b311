#include "api/text_assembler.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace skippy::api {
namespace {

// All that goes out when `pieces` come in, the last of them not an end token.
std::string Sent(TextAssembler& text, const std::vector<std::string>& pieces) {
  std::string sent;
  for (const std::string& piece : pieces) {
    const TextAssembler::Step step = text.Append(piece, false);
    sent += step.send;
    if (step.stopped) return sent;
  }
  return sent;
}

TEST(TextAssembler, TextWithoutStopStringsGoesOutAtOnce) {
  TextAssembler text({});
  EXPECT_EQ(text.Append("Hello", false).send, "Hello");
  EXPECT_EQ(text.Append(" there", false).send, " there");
  EXPECT_EQ(text.Flush(), "");
}

TEST(TextAssembler, StopStringIsCutOffAndNamed) {
  TextAssembler text({"\nUser:"});
  EXPECT_EQ(Sent(text, {"Yes.", "\nUser", ": and"}), "Yes.");
  EXPECT_EQ(text.text(), "Yes.");
  EXPECT_EQ(text.stopping_word(), "\nUser:");
}

TEST(TextAssembler, PossibleBeginningOfAStopStringIsHeldBackUntilItIsClear) {
  TextAssembler text({"###"});
  EXPECT_EQ(text.Append("a##", false).send, "a");
  EXPECT_EQ(text.Append("b", false).send, "##b");
}

TEST(TextAssembler, HeldBackTextIsFlushedAtTheEnd) {
  TextAssembler text({"###"});
  EXPECT_EQ(text.Append("a##", false).send, "a");
  EXPECT_EQ(text.Flush(), "##");
  EXPECT_EQ(text.Flush(), "");
}

TEST(TextAssembler, EndTokenReleasesWhatWasHeldBack) {
  TextAssembler text({"###"});
  EXPECT_EQ(text.Append("a#", false).send, "a");
  EXPECT_EQ(text.Append("", true).send, "#");
}

TEST(TextAssembler, EarliestOfSeveralStopStringsWins) {
  TextAssembler text({"world", "lo w"});
  const TextAssembler::Step step = text.Append("hello world", false);
  EXPECT_TRUE(step.stopped);
  EXPECT_EQ(step.send, "hel");
  EXPECT_EQ(text.stopping_word(), "lo w");
}

TEST(TextAssembler, CharactersAreNeverSplit) {
  TextAssembler text({});
  const TextAssembler::Step first = text.Append("1\xE2\x82", false);
  EXPECT_FALSE(first.complete);
  EXPECT_EQ(first.send, "");
  EXPECT_EQ(text.Append("\xAC", false).send, "1\xE2\x82\xAC");
}

TEST(TextAssembler, StopStringInATokenThatEndsWithinACharacterIsFound) {
  TextAssembler text({"END"});
  EXPECT_FALSE(text.Append("xEND\xE2", false).complete);
  const TextAssembler::Step step = text.Append("\x82\xAC", false);
  EXPECT_TRUE(step.stopped);
  EXPECT_EQ(step.send, "x");
}

TEST(TextAssembler, EmptyStopStringsAreIgnored) {
  TextAssembler text({""});
  const TextAssembler::Step step = text.Append("abc", false);
  EXPECT_FALSE(step.stopped);
  EXPECT_EQ(step.send, "abc");
}

TEST(TextAssembler, LineWithTooLittleIndentationEndsTheAnswer) {
  TextAssembler text({});
  for (const char* piece : {"    a", "\n    b", "\n"}) {
    text.Append(piece, false);
    EXPECT_FALSE(text.IndentedTooLittle(4)) << piece;
  }
  text.Append("  c", false);
  EXPECT_TRUE(text.IndentedTooLittle(4));
  EXPECT_EQ(text.text(), "    a\n    b\n  ");
}

TEST(Utf8, TellsValidFromInvalid) {
  EXPECT_TRUE(ValidUtf8("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"));
  EXPECT_FALSE(ValidUtf8("\xC0\xAF"));          // overlong
  EXPECT_FALSE(ValidUtf8("\xED\xA0\x80"));      // surrogate
  EXPECT_FALSE(ValidUtf8("\xF4\x90\x80\x80"));  // past U+10FFFF
  EXPECT_FALSE(ValidUtf8("\x80"));
  EXPECT_FALSE(ValidUtf8("\xE2\x82"));
}

// However the text is cut into tokens, the same text goes out, and it ends before the first stop
// string.
RC_GTEST_PROP(TextAssemblerProperty, CuttingIntoTokensChangesNothing, ()) {
  const auto letters = rc::gen::container<std::string>(rc::gen::element('a', 'b', 'c'));
  const std::string whole = *letters;
  std::vector<std::string> stops = *rc::gen::container<std::vector<std::string>>(letters);
  std::erase(stops, "");
  std::size_t end = whole.size();
  for (const std::string& stop : stops) end = std::min(end, whole.find(stop));

  TextAssembler text(stops);
  std::string sent;
  bool stopped = false;
  for (std::size_t at = 0; at < whole.size() && !stopped;) {
    const std::size_t length = *rc::gen::inRange<std::size_t>(1, whole.size() - at + 1);
    const TextAssembler::Step step = text.Append(whole.substr(at, length), false);
    sent += step.send;
    stopped = step.stopped;
    at += length;
    if (stopped) {
      // Tokens end the scan: a stop string that begins earlier but ends in a later token loses
      // against one that is complete already, as in llama-server.
      RC_ASSERT(text.text().size() >= end);
    }
  }
  if (!stopped) {
    sent += text.Flush();
    RC_ASSERT(sent == whole);
    RC_ASSERT(end == whole.size());
  }
  RC_ASSERT(sent == text.text());
}

}  // namespace
}  // namespace skippy::api
