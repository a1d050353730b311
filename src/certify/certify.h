// Certification: tries everything that could go wrong with kept state on one subject, and writes
// down what came of it.
//
// Certify needs a factory, since it varies the settings; it takes minutes. QuickSelfTest works on a
// runtime that is loaded already (the one about to serve), in seconds.
//
// Threads: one, the caller's; nothing else may touch the runtimes meanwhile. Errors are about the
// input (kInvalidArgument: the context is too small, a setting is refused; the message says what is
// needed). What does not hold is not an error: it is a row of the certificate.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "certify/certificate.h"
#include "certify/economics.h"
#include "certify/subject.h"
#include "skippy/prefix_cache.h"
#include "skippy/result.h"

namespace skippy::certify {

// Called before each piece of work: how many are done, of how many, and what comes.
using Progress = std::function<void(std::size_t done, std::size_t total, std::string_view next)>;

struct Settings {
  runtime::RuntimeOptions runtime;  // what is certified
  std::vector<Exactness> exactness = {Exactness::kBit, Exactness::kToken};
  std::uint64_t seed = 1;        // of texts
  std::uint32_t continued = 64;  // tokens of the long continuations
  std::uint32_t page_tokens = 64;
  bool variations = true;  // KV types, flash attention, chunk sizes, swa_full as well
  bool economics = true;
  EconomicsOptions costs;
  Progress progress;
};
Result<Certificate> Certify(Subject& subject, const Settings& settings);

// `count` valid tokens; see Subject::Text.
using TextSource = std::function<std::vector<Token>(std::size_t count, std::uint64_t seed)>;

struct QuickSettings {
  std::vector<Exactness> exactness = {Exactness::kToken};
  std::uint64_t seed = 1;
  std::uint32_t page_tokens = 64;
  std::uint32_t generated = 8;      // tokens of each answer
  std::uint32_t max_prompt = 2048;  // a window's ring is turned only when so many tokens do it
  Progress progress;
};
// Cold against hot, host pages and decoded result, and each component's round trip, at the
// runtime's own settings. Computes about two and a half chunks of prompt for each
// exactness and one more for the round trip. All
// lanes are empty afterwards, and are cleared first. Use Certificate::Certifies and FirstFailure.
Result<Certificate> QuickSelfTest(runtime::Runtime& runtime, const TextSource& text,
                                  const QuickSettings& settings);

}  // namespace skippy::certify
