#include "llama/stream_copy.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace skippy::llama {
namespace {

// Whatever the alignment and length, exactly the asked bytes are copied.
TEST(StreamCopyTest, CopiesExactlyTheRangeAtEveryAlignment) {
  std::mt19937 random(1);
  std::vector<std::byte> source(4096);
  for (std::byte& value : source) value = static_cast<std::byte>(random());
  for (const std::size_t total : {std::size_t{1}, std::size_t{1} << 30}) {
    for (int round = 0; round < 2000; ++round) {
      const std::size_t to = random() % 70;
      const std::size_t from = random() % 70;
      const std::size_t bytes = random() % 2000;
      std::vector<std::byte> target(4096, std::byte{0xAA});
      {
        const StreamCopy copy(total);
        copy(target.data() + to, source.data() + from, bytes);
      }
      std::vector<std::byte> expected(4096, std::byte{0xAA});
      std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(from), bytes,
                  expected.begin() + static_cast<std::ptrdiff_t>(to));
      ASSERT_EQ(target, expected) << to << " " << from << " " << bytes;
    }
  }
}

}  // namespace
}  // namespace skippy::llama
