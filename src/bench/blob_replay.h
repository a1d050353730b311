// A trace's prompts against a store of one blob a prompt, as llama-server's prompt cache keeps
// them: the other way to store rows (docs/experiments/02).
//
// A prompt takes the rows that it shares with the blob it shares most with, and leaves a blob of
// all its rows. Blobs that the new one contains go; then the least recently used ones until all
// fits. A prompt longer than the room is not kept.
//
// Threads: one. Errors: none. Cost: a comparison of block ids with every blob a request.
#pragma once

#include "bench/replay.h"

namespace skippy::bench {

struct BlobOptions {
  std::uint64_t cap_tokens = 0;
  std::uint32_t row_bytes = 1;
  // A blob counts as contained but for its last block: as if a trace's next turns held the question
  // before, and as if a question about a document were not asked again.
  bool without_last_block = false;
};

// known_tokens of the result are the distinct ones among what is stored at the end.
ReplayResult ReplayBlobs(const Trace& trace, const BlobOptions& options);

}  // namespace skippy::bench
