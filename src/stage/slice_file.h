// Writes the GGUF of a plan, streaming: memory stays at a few MiB whatever the model's size.
//
// The file is written as "<path>.part" and renamed when it is whole. What an interrupted writer
// left is used again: each piece that is already there and equal is not written a second time.
//
// Threads: one. Errors: kUnavailable (cannot write: disk full, no permission; the message says
// which), those of Source::Read, kCancelled (the observer said so; the part stays). Cost: reads and
// writes the stage's bytes once; digests them on the way.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "skippy/digest.h"
#include "skippy/result.h"
#include "stage/slice_plan.h"

namespace skippy::stage {

struct WrittenFile {
  std::uint64_t bytes = 0;
  Digest digest;  // BLAKE3 of the file
};

// Called after every few MiB; false: stop.
using WriteProgress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

Result<WrittenFile> WriteSlice(const Source& source, const SlicePlan& plan, const std::string& path,
                               const WriteProgress& progress);

}  // namespace skippy::stage
