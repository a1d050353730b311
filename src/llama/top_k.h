// The largest logits of a vocabulary, found in one pass over the logits.
#pragma once

#include <llama.h>

#include <cstddef>
#include <span>
#include <vector>

namespace skippy::llama {

// The candidates that llama.cpp's top-k sampler would leave of these logits: the `k` largest (all
// if there are fewer), largest first; equal ones by rising token id. Logits are not NaN (see
// LogitsAreSane). `out` is overwritten; its memory is reused. One read of the logits (bytes over
// memory bandwidth) for small k.
void TopK(std::span<const float> logits, std::size_t k, std::vector<llama_token_data>& out);

}  // namespace skippy::llama
