// Which calls of a fake fail, and what it counts.
//
// Threads: Fires is a pure function. Errors: none.
#pragma once

#include <cstdint>
#include <set>

namespace skippy::runtime::fake {

// Calls are counted from 1, each kind for itself. A call fails if its number is in the set, or by
// chance: permille of calls, drawn from the seed and the number.
struct FaultPlan {
  struct Trigger {
    std::set<std::uint64_t> calls;
    std::uint32_t permille = 0;
  };
  std::uint64_t seed = 0;
  Trigger fail_decode;
  Trigger nan_decode;   // succeeds, but all logits are NaN
  Trigger fail_import;  // the lane is empty afterwards
  Trigger lie_import;   // says success, but the lane ends one token early (or is empty)
  Trigger fail_export;  // rows or snapshot; the buffer is half written
};

// The numbers are drawn from: changing one changes what a seed does.
enum class Fault : std::uint8_t { kDecode = 1, kNan = 2, kImport = 3, kLie = 4, kExport = 5 };

bool Fires(const FaultPlan& plan, Fault fault, std::uint64_t call);

struct Counters {
  std::uint64_t decode_calls = 0;
  std::uint64_t tokens_evaluated = 0;
  std::uint64_t imports = 0;
  std::uint64_t exports = 0;
  std::uint64_t rows_imported = 0;
  std::uint64_t rows_exported = 0;
  std::uint64_t snapshots_imported = 0;
  std::uint64_t snapshots_exported = 0;
  std::uint64_t copies = 0;
  std::uint64_t faults = 0;
  std::uint64_t largest_batch = 0;  // items in one Decode
};

}  // namespace skippy::runtime::fake
