#include "api/message_boundaries.h"

#include <gtest/gtest.h>

namespace skippy::api {
namespace {

// What follows each boundary in the prompt, up to the end of the line.
std::vector<std::string> After(const std::string& messages, const std::string& prompt) {
  std::vector<std::string> lines;
  for (const std::size_t offset : MessageBoundaries(Json::parse(messages), prompt)) {
    const std::string rest = prompt.substr(offset);
    lines.push_back(rest.substr(0, rest.find('\n')));
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(MessageBoundaries, ContentsAndTheEndOfTheLast) {
  EXPECT_EQ(
      After(R"([{"role":"system","content":"Be brief."},{"role":"user","content":" Why?\n"}])",
            "<s>system\nBe brief.</s>\n<s>user\nWhy?</s>\n<s>assistant\n"),
      (Lines{"Be brief.</s>", "Why?</s>", "</s>"}));
}

TEST(MessageBoundaries, EqualContentsAreFoundInTheirOrder) {
  const std::string prompt = "[one]\n[one]\n[two]\n";
  EXPECT_EQ(MessageBoundaries(
                Json::parse(R"([{"content":"one"},{"content":"one"},{"content":"two"}])"), prompt),
            (std::vector<std::size_t>{1, 7, 13, 16}));
}

TEST(MessageBoundaries, WhatTheTemplateLeftOutIsLeftOut) {
  EXPECT_EQ(After(R"([{"content":"ask"},{"content":"<think>long</think>said"},{"content":null},
                      {"role":"assistant","tool_calls":[]},{"content":""},{"content":"more"}])",
                  "u:ask\na:said\nu:more\na:"),
            (Lines{"ask", "more", ""}));
}

TEST(MessageBoundaries, PartsOfAContentAreOneMessage) {
  EXPECT_EQ(After(R"([{"content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}])",
                  "u:one\ntwo!\n"),
            (Lines{"one", "!"}));
}

TEST(MessageBoundaries, NothingFoundNoBoundary) {
  EXPECT_EQ(After(R"([{"content":"absent"},{"content":5},{}])", "text"), Lines{});
  EXPECT_EQ(After(R"({"not":"a list"})", "text"), Lines{});
}

TEST(MessageBoundaries, LongContentsAreFoundWhole) {
  const std::string content = std::string(1000, 'x') + "y";
  const std::string prompt = "u:" + content + "\nx";
  EXPECT_EQ(MessageBoundaries(Json::parse("[{\"content\":\"" + content + "\"}]"), prompt),
            (std::vector<std::size_t>{2, 1003}));
}

std::vector<std::string> Letters(const std::string& text) {
  std::vector<std::string> pieces;
  for (const char c : text) pieces.emplace_back(1, c);
  return pieces;
}

const std::string kTwenty = "0123456789abcdefghij";

TEST(TokenBoundaries, TheTokenThatHoldsTheOffset) {
  std::vector<std::string> pieces = Letters(kTwenty);
  pieces.push_back("klm");
  pieces.push_back("no");
  const std::string prompt = kTwenty + "klmno";
  const std::vector<std::size_t> offsets{17, 20, 22, 23, 25};
  EXPECT_EQ(TokenBoundaries(pieces, prompt, offsets), (std::vector<Pos>{17, 20, 21}));
}

TEST(TokenBoundaries, TokensAroundTheTextCountAsPositions) {
  std::vector<std::string> pieces = Letters(kTwenty);
  pieces.insert(pieces.begin(), "<s>");
  pieces.push_back("</s>");
  const std::vector<std::size_t> offsets{17};
  EXPECT_EQ(TokenBoundaries(pieces, kTwenty, offsets), (std::vector<Pos>{18}));
}

TEST(TokenBoundaries, NoneNearTheBeginning) {
  const std::vector<std::size_t> offsets{0, 3, 15, 16};
  EXPECT_EQ(TokenBoundaries(Letters(kTwenty), kTwenty, offsets), (std::vector<Pos>{16}));
}

TEST(TokenBoundaries, NoneWhenTheTokensAreAnotherText) {
  const std::vector<std::size_t> offsets{18};
  EXPECT_EQ(TokenBoundaries(Letters("0123456789ABCDEFGHIJ"), kTwenty, offsets), std::vector<Pos>{});
}

}  // namespace
}  // namespace skippy::api
