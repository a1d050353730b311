// The tier matrix: every way to serve a prompt from kept state, against every habit of clients.
//
// Hot, host pages and decoded results go through the production engine and cache; which of them
// serves is forced by what is switched on, and checked in the request's own report. Sequence copies
// are below the engine, which uses none, and are tried at the port.
//
// Errors become rows (kFail with the message). Cost of one row: two to four prompts, most of them
// prefilled once, plus the cold answers that nobody asked for before.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "certify/arena.h"
#include "certify/row.h"

namespace skippy::certify {

enum class Tier : std::uint8_t { kHot = 0, kHost, kDecoded };
inline constexpr std::array kAllTiers = {Tier::kHot, Tier::kHost, Tier::kDecoded};
std::string_view TierName(Tier tier);
inline constexpr std::string_view kCopyTierName = "sequence copy";

enum class Scenario : std::uint8_t {
  kAppend = 0,
  kExactRepeat,
  kRewind5,
  kRewindMiddle,
  kBranch,
  kUnrelatedBetween,
  kEvictedAndBack,
  kAbortedAndRetried,
};
inline constexpr std::array kAllScenarios = {
    Scenario::kAppend,         Scenario::kExactRepeat,      Scenario::kRewind5,
    Scenario::kRewindMiddle,   Scenario::kBranch,           Scenario::kUnrelatedBetween,
    Scenario::kEvictedAndBack, Scenario::kAbortedAndRetried};
std::string_view ScenarioName(Scenario scenario);

Row RunTier(Arena& arena, Tier tier, Scenario scenario, Exactness exactness);
// Needs two lanes.
Row RunCopy(Arena& arena, Scenario scenario);

}  // namespace skippy::certify
