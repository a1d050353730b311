// How two runs of logits or activations compare, bit by bit and by size.
//
// Pure functions. Threads: any. Errors: none. Cost: one pass.
#pragma once

#include <span>

namespace skippy::runtime {

// memcmp, not float comparison: NaN equals NaN, and 0 differs from -0.
bool SameBits(std::span<const float> a, std::span<const float> b);
// Greatest absolute difference; infinite where a NaN or another length makes it meaningless.
double LargestDifference(std::span<const float> a, std::span<const float> b);

}  // namespace skippy::runtime
