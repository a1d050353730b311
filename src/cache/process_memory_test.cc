// The cap is about the process: the room of evicted blocks is used again, whatever the allocator
// does with it.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "cache/cache_testing.h"
#include "skippy/prefix_cache.h"

namespace skippy::cache {
namespace {

// Sanitizers keep freed memory on purpose.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

std::uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  statm >> size >> resident;
  return resident * 4096;
}

void RecordOne(TestCache& cache, std::uint64_t seed) {
  const Tokens tokens = MakeTokens(1000, seed);
  RecordRequest request;
  request.ns = cache.ns;
  request.tokens = tokens;
  RecordPlan plan = cache->BeginRecord(request);
  ASSERT_EQ(plan.outcome, RecordOutcome::kPlanned);
  for (const RecordTicket::Rows& rows : plan.ticket->rows())
    std::memset(rows.buffer.data(), static_cast<int>(seed), rows.buffer.size());
  ASSERT_TRUE(cache->Commit(std::move(*plan.ticket)));
}

TEST(ProcessMemory, TheRoomOfEvictedBlocksIsUsedAgain) {
  constexpr std::uint64_t kMib = 1U << 20U;
  CacheOptions options = DenseOptions(24 * kMib);
  options.shape.kv_row_bytes = 23'040;  // as SmolLM2-135M: pages of 1.4 MiB
  options.page_tokens = 64;
  std::uint64_t settled = 0;
  std::uint64_t after = 0;
  // On a thread of its own, as the engine is: it has another arena of the allocator.
  std::thread([&] {
    TestCache cache(options);
    for (std::uint64_t i = 0; i < 4; ++i) RecordOne(cache, i);
    settled = ResidentBytes();
    for (std::uint64_t i = 4; i < 24; ++i) RecordOne(cache, i);
    after = ResidentBytes();
  }).join();
  EXPECT_LT(after, settled + 24 * kMib) << "20 more records of 22 MiB under a cap of 24 MiB";
}

#endif

}  // namespace
}  // namespace skippy::cache
