#include "cli/certify_subject.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "families/identify.h"
#include "llama/model_facts.h"
#include "llama/text_tokens.h"
#include "skippy/random.h"

namespace skippy::cli {
namespace {

constexpr std::array<std::string_view, 24> kWho = {
    "The engineer",  "My sister",   "A tired clerk", "The river",     "Our teacher",
    "The old dog",   "A visitor",   "The committee", "Her neighbour", "The gardener",
    "A young pilot", "The report",  "His brother",   "The baker",     "A quiet student",
    "The museum",    "The captain", "A small bird",  "The company",   "The librarian",
    "Everyone",      "The doctor",  "A merchant",    "The orchestra"};
constexpr std::array<std::string_view, 24> kDid = {
    "found",   "described",  "repaired",   "forgot", "measured", "painted", "sold",     "followed",
    "carried", "questioned", "remembered", "opened", "counted",  "refused", "watched",  "built",
    "lost",    "explained",  "cleaned",    "shared", "weighed",  "copied",  "defended", "moved"};
constexpr std::array<std::string_view, 24> kWhat = {
    "seventeen letters",       "the broken engine",        "a map of the harbour",
    "the northern bridge",     "three loaves of bread",    "the second chapter",
    "a list of names",         "the wooden door",          "an argument about prices",
    "the blue notebook",       "a basket of apples",       "the evening train",
    "the oldest part of town", "a rule that nobody liked", "the results of the test",
    "a photograph from 1962",  "the key to the cellar",    "a cup of cold coffee",
    "the number 4,281",        "a song without words",     "the window facing east",
    "two kinds of silver",     "the long way home",        "a table with five legs"};
constexpr std::array<std::string_view, 16> kWhen = {
    "before the rain began",    "because the law required it", "on a Tuesday in March",
    "while the others slept",   "although it was late",        "near the end of the war",
    "without saying a word",    "as the instructions say",     "for the third time this year",
    "when the lights went out", "at a cost of 90 dollars",     "in spite of the noise",
    "after a long discussion",  "so that nobody would ask",    "until the music stopped",
    "as far as we know"};

std::string Sentence(std::uint64_t seed, std::uint64_t number) {
  const std::uint64_t dice = SplitMix64(seed ^ SplitMix64(number));
  const auto pick = [&](const auto& words, unsigned shift) {
    return std::string(words[(dice >> shift) % words.size()]);
  };
  return pick(kWho, 0) + " " + pick(kDid, 12) + " " + pick(kWhat, 24) + " " + pick(kWhen, 36) +
         ". ";
}

}  // namespace

void SentenceSource::Extend(Text& text, std::uint64_t seed) const {
  const auto tokens = llama::TokensOfText(model_, Sentence(seed, text.sentences));
  ++text.sentences;
  if (tokens && !tokens->empty()) {
    text.tokens.insert(text.tokens.end(), tokens->begin(), tokens->end());
    return;
  }
  const std::uint64_t vocabulary = llama::VocabularySize(model_);
  text.tokens.push_back(
      static_cast<Token>(SplitMix64(seed ^ SplitMix64(text.sentences)) % vocabulary));
}

std::vector<Token> SentenceSource::operator()(std::size_t count, std::uint64_t seed) {
  Text& text = texts_[seed];
  while (text.tokens.size() < count) Extend(text, seed);
  return {text.tokens.begin(), text.tokens.begin() + static_cast<std::ptrdiff_t>(count)};
}

std::uint64_t LlamaSubject::ExpandedRowBytes(const runtime::RuntimeOptions& options) {
  const auto& catalogue = families::EmbeddedFamilies();
  const auto facts = llama::ReadModelFacts(path_);
  const auto key = families::ElementBytes(options.type_k);
  const auto value = families::ElementBytes(options.type_v);
  if (!catalogue || !facts || !key || !value) return 0;
  const families::Match match = families::Identify(*catalogue, *facts);
  if (match.family == nullptr) return 0;
  const auto expected = families::Expect(*match.family, *facts, {*key, *value});
  if (!expected || !expected->latent) return 0;
  return expected->latent->expanded_bytes;
}

}  // namespace skippy::cli
