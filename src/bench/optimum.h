// What no cache can beat on a trace: the tokens that must be evaluated when nothing is ever
// dropped, and when a cap allows only so many tokens to be kept but the future is known.
//
// With a cap the block whose next use lies furthest is dropped first, or not kept at all (Belady's
// MIN with bypassing, 1966; optimal for blocks of one size). A block is used whenever one behind it
// is, so what is kept is always a prefix tree. Partial last blocks count as what they hold, which
// makes the result exact up to one block a request.
//
// A request needs none of its tokens evaluated when all of its blocks are kept.
#pragma once

#include <cstdint>

#include "bench/trace.h"

namespace skippy::bench {

struct Optimum {
  std::uint64_t evaluated_tokens = 0;
  std::uint64_t cached_tokens = 0;
};

// Cost: a hash lookup a block.
Optimum PerfectTree(const Trace& trace);
// cap_tokens: most tokens kept between requests. Cost: a logarithm of the kept blocks a block.
Optimum KnowingTheFuture(const Trace& trace, std::uint64_t cap_tokens);

}  // namespace skippy::bench
