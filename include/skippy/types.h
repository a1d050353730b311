// The small words that every layer shares. Ranges are half-open everywhere: [begin, end).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace skippy {

using Token = std::int32_t;
// A position in a sequence, counted in tokens from 0. A *boundary* p means: state after tokens [0,
// p).
using Pos = std::uint32_t;

struct PosRange {
  Pos begin = 0;
  Pos end = 0;
  constexpr Pos size() const { return end - begin; }
  constexpr bool empty() const { return begin >= end; }
  constexpr auto operator<=>(const PosRange&) const = default;
};

// An integer that does not mix with other integers. Tag makes each alias a type of its own.
template <class Tag, class Rep>
struct StrongInt {
  Rep value{};
  constexpr auto operator<=>(const StrongInt&) const = default;
};

// A sequence of the runtime: the lane that a request runs in.
using SeqId = StrongInt<struct SeqIdTag, std::uint32_t>;
using RequestId = StrongInt<struct RequestIdTag, std::uint64_t>;
// Monotonic time in microseconds, from Clock.
using Tick = StrongInt<struct TickTag, std::int64_t>;

using TokenSpan = std::span<const Token>;
using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;

}  // namespace skippy

template <class Tag, class Rep>
struct std::hash<skippy::StrongInt<Tag, Rep>> {
  std::size_t operator()(skippy::StrongInt<Tag, Rep> id) const {
    return std::hash<Rep>{}(id.value);
  }
};
