// Which family a model is of, what its memory should be, and whether the runtime holds that.
//
// Guarantees: a family is found by what the file says, never by its name; an architecture of no
// family is no error and is classified by its memory alone. Where expectation and measurement
// differ, both are told and the measurement is what counts.
//
// Threads: pure functions. Errors: kInvalidArgument (the file lacks what the family's formulas
// need). Cost: well under a millisecond for a hundred layers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "families/family.h"
#include "families/model_facts.h"
#include "families/policy.h"
#include "skippy/memory_shape.h"
#include "skippy/result.h"

namespace skippy::families {

struct Match {
  const Family* family = nullptr;  // borrowed from the catalogue; null: none
  std::string why;                 // in words, for either
};
// Of several families whose conditions hold, the one with most conditions.
Match Identify(std::span<const Family> families, const ModelFacts& facts);

// Latent attention (MLA): what a token takes either way, and which way this file goes.
struct LatentState {
  bool latent = false;  // by metadata, which is what llama.cpp decides by
  std::uint64_t latent_bytes = 0;
  std::uint64_t expanded_bytes = 0;
  std::string evidence;  // the keys and tensors that say so, in words
};
enum class LatentHeld : std::uint8_t { kLatent, kExpanded, kNeither };
std::string_view LatentHeldName(LatentHeld held);  // "latent", "expanded", "neither"
// By the bytes that the runtime really holds a token.
LatentHeld HeldBy(const LatentState& state, const MemoryShape& measured);

struct Expected {
  MemoryShape shape;  // without logits
  PayloadPolicy policy = PayloadPolicy::kOff;
  std::string reason;
  std::optional<LatentState> latent;
  std::vector<std::string> notes;
};
Result<Expected> Expect(const Family& family, const ModelFacts& facts, KvTypes types);

struct Difference {
  std::string what;
  std::string expected;
  std::string measured;
};
// Empty: the runtime holds what the family's file says. Logits are not compared.
std::vector<Difference> Compare(const Expected& expected, const MemoryShape& measured,
                                PayloadPolicy policy);

// All of it for one loaded model.
struct Verdict {
  std::string family;  // "unknown" where there is none
  std::string title;
  std::string why;
  std::string memory;
  std::string granularity;
  std::optional<Expected> expected;
  std::vector<Difference> differences;
  std::vector<std::string> notes;
  // The expectation exists and the measurement equals it.
  bool Confirmed() const { return expected.has_value() && differences.empty(); }
};
Verdict Confirm(std::span<const Family> families, const ModelFacts& facts, KvTypes types,
                const MemoryShape& measured, PayloadPolicy policy);

// "Qwen3-Next, memory as expected"
std::string OneLine(const Verdict& verdict);

}  // namespace skippy::families
