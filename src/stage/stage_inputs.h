// What a stage is fed with for its certification: rows of activations as its neighbour would send
// them.
//
// Threads: single-threaded. Errors: kInvalidArgument (packages that do not fit: it is said which),
// those of loading. Cost: one forward pass of the upstream stages over all rows, or none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/runtime_options.h"
#include "skippy/result.h"
#include "skippy/types.h"
#include "stage/manifest.h"

namespace skippy::stage {

// Where the rows come from; a certificate names it.
enum class InputKind : std::uint8_t {
  kTokens,     // embedding rows of tokens: the first stage
  kUpstream,   // what the stages before it make of tokens
  kSynthetic,  // normally distributed numbers
};
std::string_view InputKindName(InputKind kind);  // "real tokens", "real upstream", "synthetic"

struct InputRows {
  InputKind kind = InputKind::kSynthetic;
  std::string description;
  std::uint32_t width = 0;
  std::vector<float> rows;  // token-major
  std::span<const float> At(PosRange positions) const {
    return std::span(rows).subspan(std::size_t{positions.begin} * width,
                                   std::size_t{positions.size()} * width);
  }
};

// The same ones every time, drawn evenly from the vocabulary.
std::vector<Token> SomeTokens(std::uint32_t vocabulary, Pos count);
// Of the package's vocabulary.
Result<InputRows> RowsOfTokens(const std::string& vocabulary, Pos count);
// `upstream`: folders of the stages from layer 0 up to where `stage` begins. The rows are computed
// with `options`, chunk by chunk.
Result<InputRows> RowsOfUpstream(const std::string& vocabulary,
                                 const std::vector<std::string>& upstream, const Manifest& stage,
                                 Pos count, const runtime::RuntimeOptions& options);
// Deviation 1, from the seed: the same on every machine.
InputRows SyntheticRows(std::uint32_t width, Pos count, std::uint64_t seed);

}  // namespace skippy::stage
