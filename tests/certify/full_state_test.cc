// The whole serialised state: a reference for certification that no policy ever selects.
#include "runtime/full_state.h"

#include <gtest/gtest.h>

#include "certify/fake_subject.h"
#include "certify/port_run.h"
#include "families/policy.h"

namespace skippy::certify_test {
namespace {

constexpr SeqId kFrom{0};
constexpr SeqId kTo{1};

class FakeFullState : public testing::TestWithParam<ShapeKind> {
 protected:
  FakeFullState() : runtime_(OptionsOf(GetParam())) {
    FakeSubject subject(OptionsOf(GetParam()));
    text_ = subject.Text(100, 3);
  }
  static FakeOptions OptionsOf(ShapeKind shape) {
    FakeOptions options;
    options.shape = shape;
    return options;
  }

  FakeRuntime runtime_;
  std::vector<Token> text_;
};

TEST_P(FakeFullState, GoesOnLikeTheLaneItCameFrom) {
  ASSERT_TRUE(certify::Prefill(runtime_, kFrom, text_, 70));
  const auto state = runtime_.ExportFullState(kFrom);
  ASSERT_TRUE(state);
  ASSERT_TRUE(runtime_.ImportFullState(kTo, *state));
  EXPECT_EQ(runtime_.End(kTo), 70U);
  EXPECT_EQ(*runtime_.ExportFullState(kTo), *state);
  const auto went = certify::Prefill(runtime_, kTo, text_, 100);
  const auto uninterrupted = certify::Prefill(runtime_, kFrom, text_, 100);
  ASSERT_TRUE(went && uninterrupted);
  EXPECT_EQ(*went, *uninterrupted);
}

TEST_P(FakeFullState, EveryByteMatters) {
  ASSERT_TRUE(certify::Prefill(runtime_, kFrom, text_, 70));
  std::vector<std::byte> state = *runtime_.ExportFullState(kFrom);
  const auto right = certify::Prefill(runtime_, kFrom, text_, 100);
  for (const std::size_t at : {sizeof(Pos), state.size() / 2, state.size() - 1}) {
    std::vector<std::byte> spoilt = state;
    spoilt[at] ^= std::byte{1};
    runtime_.Clear(kTo);
    ASSERT_TRUE(runtime_.ImportFullState(kTo, spoilt));
    EXPECT_NE(*certify::Prefill(runtime_, kTo, text_, 100), *right) << at;
  }
}

TEST_P(FakeFullState, WhatIsNoStateIsRefused) {
  EXPECT_FALSE(runtime_.ExportFullState(kFrom)) << "an empty lane";
  ASSERT_TRUE(certify::Prefill(runtime_, kFrom, text_, 70));
  const std::vector<std::byte> state = *runtime_.ExportFullState(kFrom);
  EXPECT_FALSE(runtime_.ImportFullState(kFrom, state)) << "a lane in use";
  for (const std::size_t size : {std::size_t{0}, std::size_t{3}, state.size() - 1})
    EXPECT_FALSE(runtime_.ImportFullState(kTo, ByteSpan(state).first(size))) << size;
  EXPECT_EQ(runtime_.End(kTo), 0U);
}

INSTANTIATE_TEST_SUITE_P(Shapes, FakeFullState, testing::ValuesIn(AllShapes()),
                         [](const testing::TestParamInfo<ShapeKind>& shape) {
                           return std::string(runtime::fake::ShapeKindName(shape.param));
                         });

TEST(FullStatePolicyTest, NoShapeSelectsFullState) {
  for (const std::uint64_t kv : {0U, 1U, 4096U}) {
    for (const std::uint64_t window : {0U, 64U}) {
      for (const std::uint64_t snapshot : {0U, 1U, 1U << 20U}) {
        for (const char* off : {"", "cannot be exported exactly"}) {
          MemoryShape shape;
          shape.kv_row_bytes = kv;
          shape.window_row_bytes = window;
          shape.window_tokens = window > 0 ? 32 : 0;
          shape.snapshot_bytes = snapshot;
          EXPECT_NE(families::SelectPolicy(shape, off).policy, PayloadPolicy::kFullState);
        }
      }
    }
  }
}

}  // namespace
}  // namespace skippy::certify_test
