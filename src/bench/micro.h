// What moving state costs, step by step, on the shapes of one runtime: nothing is evaluated, the
// rows are random bytes, so that a model of any size takes seconds.
//
// Expected: memcpy at the memory's bandwidth; an export or import of large pages near it, since
// each byte is moved once; BLAKE3 at 1 to 4 GB/s; lookup and bookkeeping of a record in
// microseconds.
//
// Threads: one. The runtime's lanes are cleared, before and after.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/runtime.h"
#include "skippy/result.h"
#include "skippy/types.h"

namespace skippy::bench {

struct MicroOptions {
  std::vector<Pos> lengths = {128, 1024, 4096, 16384};  // longer than the context: left out
  std::uint32_t page_tokens = 64;
  std::uint32_t rounds = 15;  // of each figure; the median counts
};

// Of one kind of movement, microseconds: wall time, and the process's CPU time.
struct Movement {
  double p50_us = 0;
  double p95_us = 0;
  double cpu_us = 0;  // median
};

// Microseconds, medians.
struct MicroPoint {
  Pos tokens = 0;
  std::uint64_t bytes = 0;  // of a restorable boundary there
  double memcpy_us = 0;     // of all bytes, between buffers that were written before
  double digest_us = 0;     // BLAKE3 of each block
  Movement export_pages;    // a call a page, as the engine does
  Movement export_call;     // one call for all rows of a component, into one block
  Movement import_call;     // one call for all pages, as the engine does
  double record_us = 0;     // BeginRecord and Commit, digests included, copies not
  double lookup_us = 0;     // of the recorded prompt among nothing else
};

// Ascending in tokens. kInvalidArgument: no length fits into the context.
Result<std::vector<MicroPoint>> MeasureMicro(runtime::Runtime& runtime,
                                             const MicroOptions& options);

}  // namespace skippy::bench
