#include "stage/stage_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "skippy/random.h"
#include "stage/chain.h"

namespace skippy::stage {
namespace {

// In (0, 1].
double Unit(std::uint64_t bits) { return (static_cast<double>(bits >> 11U) + 1) * 0x1.0p-53; }

}  // namespace

std::vector<Token> SomeTokens(std::uint32_t vocabulary, Pos count) {
  std::vector<Token> tokens;
  for (Pos i = 0; i < count; ++i) tokens.push_back(static_cast<Token>(SplitMix64(i) % vocabulary));
  return tokens;
}

std::string_view InputKindName(InputKind kind) {
  switch (kind) {
    case InputKind::kTokens: return "real tokens";
    case InputKind::kUpstream: return "real upstream";
    case InputKind::kSynthetic: return "synthetic";
  }
  return "unknown";
}

Result<InputRows> RowsOfTokens(const std::string& vocabulary, Pos count) {
  SKIPPY_TRY(const auto table, EmbeddingTable::Open(vocabulary));
  InputRows rows;
  rows.kind = InputKind::kTokens;
  rows.description = fmt::format("{} tokens of the model's vocabulary", count);
  rows.width = table->width();
  rows.rows.resize(std::size_t{count} * rows.width);
  SKIPPY_RETURN_IF_ERROR(table->Rows(SomeTokens(table->tokens(), count), rows.rows));
  return rows;
}

Result<InputRows> RowsOfUpstream(const std::string& vocabulary,
                                 const std::vector<std::string>& upstream, const Manifest& stage,
                                 Pos count, const runtime::RuntimeOptions& options) {
  SKIPPY_TRY(const auto chain, Chain::Load(vocabulary, upstream, options, stage.layers.begin));
  if (chain->model() != stage.model)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("the upstream stages are of {}, the stage of {}", chain->model().name,
                           stage.model.name));
  InputRows rows;
  rows.kind = InputKind::kUpstream;
  rows.description = fmt::format("{} tokens through layers 0..{}", count, stage.layers.begin);
  rows.width = stage.input.width;
  const std::vector<Token> tokens = SomeTokens(chain->vocabulary(), count);
  for (Pos at = 0; at < count;) {
    const TokenSpan step =
        TokenSpan(tokens).subspan(at, std::min<std::size_t>(options.chunk, count - at));
    SKIPPY_RETURN_IF_ERROR(chain->Decode(SeqId{0}, at, step, false));
    const std::span<const float> left = chain->Rows();
    rows.rows.insert(rows.rows.end(), left.begin(), left.end());
    at += static_cast<Pos>(step.size());
  }
  return rows;
}

InputRows SyntheticRows(std::uint32_t width, Pos count, std::uint64_t seed) {
  InputRows rows;
  rows.kind = InputKind::kSynthetic;
  rows.description = fmt::format("{} rows of normally distributed numbers, seed {}", count, seed);
  rows.width = width;
  rows.rows.resize(std::size_t{count} * width);
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    // Box and Muller's transform of two draws that depend on the place alone.
    const double radius = std::sqrt(-2 * std::log(Unit(SplitMix64(seed ^ (2 * i)))));
    const double angle = 2 * std::numbers::pi * Unit(SplitMix64(~seed ^ (2 * i + 1)));
    rows.rows[i] = static_cast<float>(radius * std::cos(angle));
  }
  return rows;
}

}  // namespace skippy::stage
