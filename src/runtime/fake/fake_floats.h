// Digests as floats: logits, and the rows of activations between layers.
//
// The whole parts are made of `high`, the fractions of `low` (fake_state.h); all are exact floats.
// No two whole parts of one span are equal, so low bits never decide between tokens.
//
// Threads: pure functions. Errors: none.
#pragma once

#include <span>

#include "runtime/fake/fake_state.h"

namespace skippy::runtime::fake {

// REQUIRES: out.size() <= 65536.
void WriteLogits(const DualHash& hash, std::span<float> out);

// Activations: logits scaled down, so that f16 can carry them.
void WriteRow(const DualHash& hash, std::span<float> out);
// What a layer reads of a row: every bit of it. `noise`: its fractions change `low` alone.
DualHash ReadRow(std::span<const float> row, bool noise);

}  // namespace skippy::runtime::fake
