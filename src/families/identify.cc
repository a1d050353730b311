#include "families/identify.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace skippy::families {
namespace {

constexpr std::string_view kLatentTensor = ".attn_k_b.weight";
constexpr std::string_view kExpandedTensor = ".attn_kv_b.weight";

bool AnyTensor(const ModelFacts& facts, std::string_view suffix) {
  return std::any_of(facts.tensors.begin(), facts.tensors.end(),
                     [&](const std::string& name) { return name.ends_with(suffix); });
}

bool Holds(Evaluator& evaluator, const Condition& condition) {
  const auto value = evaluator.At(condition.formula, 0);
  return value && *value != 0;
}

std::string Because(const Family& family, const ModelFacts& facts) {
  std::string why = fmt::format("architecture {}", facts.architecture);
  for (const Condition& condition : family.when) why += "; " + condition.because;
  return why;
}

Result<LatentState> ExpectLatent(const Family& family, const ModelFacts& facts,
                                 Evaluator& evaluator, std::vector<std::string>& notes) {
  LatentState state;
  SKIPPY_TRY(const double latent, evaluator.At("latent", 0));
  state.latent = latent != 0;
  SKIPPY_TRY(state.latent_bytes, evaluator.Sum(family.bytes.latent));
  SKIPPY_TRY(state.expanded_bytes, evaluator.Sum(family.bytes.expanded));
  const bool folded = AnyTensor(facts, kLatentTensor);
  const bool unfolded = AnyTensor(facts, kExpandedTensor);
  state.evidence = fmt::format(
      "{} of the heads' own sizes, {}", state.latent ? "keys" : "no keys",
      folded ? "tensors attn_k_b" : (unfolded ? "tensors attn_kv_b" : "no tensors of either kind"));
  // llama.cpp then looks for tensors that are not there, and does not load the file.
  if ((state.latent && unfolded && !folded) || (!state.latent && folded))
    notes.push_back("metadata and tensors disagree on whether the state is latent");
  return state;
}

std::string Bytes(std::uint64_t bytes) { return fmt::format("{} bytes", bytes); }

}  // namespace

Match Identify(std::span<const Family> families, const ModelFacts& facts) {
  Match match;
  bool known = false;
  for (const Family& family : families) {
    if (std::find(family.architectures.begin(), family.architectures.end(), facts.architecture) ==
        family.architectures.end())
      continue;
    known = true;
    Evaluator evaluator(family.values, facts, {});
    const bool holds =
        std::all_of(family.when.begin(), family.when.end(),
                    [&](const Condition& condition) { return Holds(evaluator, condition); });
    if (!holds) continue;
    if (match.family == nullptr || family.when.size() > match.family->when.size())
      match.family = &family;
  }
  if (match.family != nullptr) {
    match.why = Because(*match.family, facts);
  } else if (known) {
    match.why = fmt::format("architecture {} is known, but no family's conditions hold",
                            facts.architecture);
  } else {
    match.why = fmt::format("no family has the architecture '{}'", facts.architecture);
  }
  return match;
}

std::string_view LatentHeldName(LatentHeld held) {
  switch (held) {
    case LatentHeld::kLatent: return "latent";
    case LatentHeld::kExpanded: return "expanded";
    case LatentHeld::kNeither: return "neither";
  }
  return "unknown";
}

LatentHeld HeldBy(const LatentState& state, const MemoryShape& measured) {
  const bool latent = measured.kv_row_bytes == state.latent_bytes;
  const bool expanded = measured.kv_row_bytes == state.expanded_bytes;
  if (latent && expanded) return state.latent ? LatentHeld::kLatent : LatentHeld::kExpanded;
  return latent ? LatentHeld::kLatent : expanded ? LatentHeld::kExpanded : LatentHeld::kNeither;
}

Result<Expected> Expect(const Family& family, const ModelFacts& facts, KvTypes types) {
  Expected expected;
  if (family.policy == PayloadPolicy::kOff) {
    expected.reason = family.reason;
    return expected;
  }
  Evaluator evaluator(family.values, facts, types);
  MemoryShape& shape = expected.shape;
  SKIPPY_TRY(shape.kv_row_bytes, evaluator.Sum(family.bytes.token));
  SKIPPY_TRY(shape.window_row_bytes, evaluator.Sum(family.bytes.window_token));
  if (shape.HasWindow()) {
    SKIPPY_TRY(const std::uint64_t rows, evaluator.Count(family.bytes.window));
    shape.window_tokens = static_cast<std::uint32_t>(std::min<std::uint64_t>(rows, UINT32_MAX));
  }
  SKIPPY_TRY(shape.snapshot_bytes, evaluator.Sum(family.bytes.snapshot));
  if (family.IsLatent()) {
    SKIPPY_TRY(expected.latent, ExpectLatent(family, facts, evaluator, expected.notes));
  }
  Selection selection = SelectPolicy(shape, {});
  expected.policy = selection.policy;
  expected.reason = std::move(selection.reason);
  if (expected.policy != family.policy)
    expected.notes.push_back(
        fmt::format("models of this family are {}; this file has {}, so it is {}",
                    PayloadPolicyName(family.policy),
                    shape.HasSnapshot() ? Bytes(shape.snapshot_bytes) + " of recurrent state"
                                        : "no recurrent state",
                    PayloadPolicyName(expected.policy)));
  return expected;
}

std::vector<Difference> Compare(const Expected& expected, const MemoryShape& measured,
                                PayloadPolicy policy) {
  std::vector<Difference> differences;
  const auto compare = [&](const char* what, std::uint64_t a, std::uint64_t b) {
    if (a != b) differences.push_back({what, std::to_string(a), std::to_string(b)});
  };
  const MemoryShape& shape = expected.shape;
  compare("bytes a token", shape.kv_row_bytes, measured.kv_row_bytes);
  compare("window bytes a token", shape.window_row_bytes, measured.window_row_bytes);
  compare("window tokens", shape.window_tokens, measured.window_tokens);
  compare("bytes a snapshot", shape.snapshot_bytes, measured.snapshot_bytes);
  if (expected.policy != policy)
    differences.push_back({"policy", std::string(PayloadPolicyName(expected.policy)),
                           std::string(PayloadPolicyName(policy))});
  if (expected.latent) {
    const LatentHeld held = HeldBy(*expected.latent, measured);
    const LatentHeld said = expected.latent->latent ? LatentHeld::kLatent : LatentHeld::kExpanded;
    if (held != said)
      differences.push_back(
          {"state", std::string(LatentHeldName(said)), std::string(LatentHeldName(held))});
  }
  return differences;
}

Verdict Confirm(std::span<const Family> families, const ModelFacts& facts, KvTypes types,
                const MemoryShape& measured, PayloadPolicy policy) {
  const Match match = Identify(families, facts);
  Verdict verdict;
  verdict.why = match.why;
  if (match.family == nullptr) {
    verdict.family = "unknown";
    verdict.title = "unknown family";
    verdict.memory = MemoryWords(measured);
    verdict.granularity = GranularityWords(measured, policy);
    verdict.notes.push_back("classified by its memory alone");
    return verdict;
  }
  verdict.family = match.family->name;
  verdict.title = match.family->title;
  verdict.memory = match.family->memory;
  verdict.granularity = GranularityWords(measured, policy);
  auto expected = Expect(*match.family, facts, types);
  if (!expected) {
    verdict.notes.push_back("no expectation: " + expected.error().message);
    return verdict;
  }
  verdict.notes = expected->notes;
  verdict.differences = Compare(*expected, measured, policy);
  verdict.expected = std::move(*expected);
  return verdict;
}

std::string OneLine(const Verdict& verdict) {
  if (verdict.family == "unknown")
    return fmt::format("{} ({}), {}", verdict.title, verdict.why, verdict.notes.front());
  if (verdict.Confirmed()) return fmt::format("{}, memory as expected", verdict.title);
  std::string line = verdict.title;
  for (const Difference& difference : verdict.differences)
    line += fmt::format(", {} {} (the family's file says {})", difference.what, difference.measured,
                        difference.expected);
  if (!verdict.expected && !verdict.notes.empty()) line += ", " + verdict.notes.back();
  return line;
}

}  // namespace skippy::families
