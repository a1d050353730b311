// Known answers of BLAKE3 (official test vectors: input bytes are i % 251).
#include "skippy/digest.h"

#include <gtest/gtest.h>

#include <vector>

namespace skippy {
namespace {

std::vector<std::byte> TestVectorInput(std::size_t length) {
  std::vector<std::byte> input(length);
  for (std::size_t i = 0; i < length; ++i) input[i] = static_cast<std::byte>(i % 251);
  return input;
}

TEST(DigestTest, EmptyInputHasTheOfficialDigest) {
  EXPECT_EQ(Blake3({}).Hex(), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
}

TEST(DigestTest, IncrementalEqualsOneShotAcrossChunkBorders) {
  for (std::size_t length : {1U, 1023U, 1024U, 1025U, 31744U}) {
    const auto input = TestVectorInput(length);
    Blake3Hasher hasher;
    for (std::size_t i = 0; i < length; i += 7)
      hasher.Update(ByteSpan(input).subspan(i, std::min<std::size_t>(7, length - i)));
    EXPECT_EQ(hasher.Finish(), Blake3(input)) << length;
  }
}

TEST(DigestTest, OneFlippedBitChangesTheDigest) {
  auto input = TestVectorInput(5000);
  const Digest before = Blake3(input);
  input[4321] ^= std::byte{1};
  EXPECT_NE(Blake3(input), before);
}

}  // namespace
}  // namespace skippy
