#include "rpc/messages.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "rpc/rpc_testing.h"

namespace skippy::rpc {
namespace {

constexpr std::uint32_t kContext = 100;

Digest DigestFrom(std::uint8_t first) {
  Digest digest;
  for (std::size_t i = 0; i < digest.bytes.size(); ++i)
    digest.bytes[i] = static_cast<std::uint8_t>(first + i);
  return digest;
}

// Every field has a value of its own, none of them the default.
pipeline::StageDescription FullDescription() {
  pipeline::StageDescription description;
  description.package = {DigestFrom(1), "m.gguf", "qwen3", 61, {3, 20}, 2};
  Identity identity;
  identity.model = DigestFrom(2);
  identity.tokenizer = DigestFrom(3);
  identity.architecture = "a";
  identity.runtime_build = "b";
  identity.device = "c";
  identity.kv_type_k = "d";
  identity.kv_type_v = "e";
  identity.flash_attention = false;
  identity.rope = "f";
  identity.swa_full = true;
  identity.streams = 4;
  identity.context = 5;
  identity.chunk = 6;
  identity.threads = 7;
  identity.layer_begin = 8;
  identity.layer_end = 9;
  identity.topology = "g";
  identity.state_version = 10;
  identity.adapters = {{DigestFrom(4), 0.5F}, {DigestFrom(5), -2.0F}};
  description.info = {{11, 12, 13, std::uint64_t{14} << 32U, 15},
                      PayloadPolicy::kKvRecurrent,
                      "why",
                      16,
                      17,
                      18,
                      19,
                      identity};
  description.input_width = 20;
  description.output_width = 21;
  description.session = std::numeric_limits<std::uint64_t>::max();
  return description;
}

TEST(Messages, ADescriptionTravelsWhole) {
  const pipeline::StageDescription sent = FullDescription();
  std::string bytes;
  ASSERT_TRUE(ToMessage(sent).SerializeToString(&bytes));
  v1::StageDescription message;
  ASSERT_TRUE(message.ParseFromString(bytes));
  const auto got = FromMessage(message);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->package, sent.package);
  EXPECT_EQ(got->info.shape, sent.info.shape);
  EXPECT_EQ(got->info.policy, sent.info.policy);
  EXPECT_EQ(got->info.policy_reason, sent.info.policy_reason);
  EXPECT_EQ(got->info.lanes, sent.info.lanes);
  EXPECT_EQ(got->info.context, sent.info.context);
  EXPECT_EQ(got->info.chunk, sent.info.chunk);
  EXPECT_EQ(got->info.vocab, sent.info.vocab);
  EXPECT_EQ(got->info.identity, sent.info.identity);
  EXPECT_EQ(got->input_width, sent.input_width);
  EXPECT_EQ(got->output_width, sent.output_width);
  EXPECT_EQ(got->session, sent.session);
}

TEST(Messages, ADescriptionWithWrongFieldsIsRefused) {
  const v1::StageDescription good = ToMessage(FullDescription());
  v1::StageDescription bad = good;
  bad.mutable_package()->set_model("short");
  EXPECT_TRUE(IsError(FromMessage(bad), ErrorCode::kInvalidArgument, {"5 bytes"}));
  bad = good;
  bad.mutable_info()->mutable_identity()->set_tokenizer(std::string(33, 'x'));
  EXPECT_TRUE(IsError(FromMessage(bad), ErrorCode::kInvalidArgument, {"tokenizer", "33"}));
  bad = good;
  bad.mutable_info()->mutable_identity()->mutable_adapters(1)->clear_content();
  EXPECT_TRUE(IsError(FromMessage(bad), ErrorCode::kInvalidArgument, {"adapter"}));
  bad = good;
  bad.mutable_info()->set_policy(static_cast<v1::PayloadPolicy>(4));
  EXPECT_TRUE(IsError(FromMessage(bad), ErrorCode::kInvalidArgument, {"policy 4"}));
  bad = good;
  bad.mutable_package()->clear_layers();
  EXPECT_TRUE(IsError(FromMessage(bad), ErrorCode::kInvalidArgument, {"0..0"}));
  EXPECT_TRUE(FromMessage(good));
}

TEST(Messages, PiecesTravel) {
  for (const Component component : {Component::kKv, Component::kWindow, Component::kSnapshot}) {
    const pipeline::PieceSlice slice = {{DigestFrom(9), component, {32, kContext}}, {40, 64}};
    EXPECT_EQ(FromMessage(ToMessage(slice), kContext), slice);
  }
}

TEST(Messages, PiecesThatCannotBeAreRefused) {
  const v1::PieceSlice good =
      ToMessage(pipeline::PieceSlice{{DigestFrom(9), Component::kKv, {32, 64}}, {40, 64}});
  const auto refused = [&](const auto& spoil, const char* word) {
    v1::PieceSlice bad = good;
    spoil(bad);
    return IsError(FromMessage(bad, kContext), ErrorCode::kInvalidArgument, {word});
  };
  EXPECT_TRUE(
      refused([](v1::PieceSlice& bad) { bad.mutable_piece()->mutable_name()->pop_back(); }, "31"));
  EXPECT_TRUE(refused(
      [](v1::PieceSlice& bad) {
        bad.mutable_piece()->set_component(static_cast<v1::Component>(Component::kLogits));
      },
      "component 3"));
  EXPECT_TRUE(refused(
      [](v1::PieceSlice& bad) {
        bad.mutable_piece()->set_component(static_cast<v1::Component>(-1));
      },
      "component -1"));
  EXPECT_TRUE(refused(
      [](v1::PieceSlice& bad) { bad.mutable_piece()->mutable_positions()->set_end(kContext + 1); },
      "32..101"));
  EXPECT_TRUE(
      refused([](v1::PieceSlice& bad) { bad.mutable_positions()->set_begin(65); }, "65..64"));
  EXPECT_TRUE(
      refused([](v1::PieceSlice& bad) { bad.mutable_positions()->set_begin(31); }, "31..64"));
  EXPECT_TRUE(refused([](v1::PieceSlice& bad) { bad.mutable_positions()->set_end(65); }, "40..65"));
  EXPECT_TRUE(refused([](v1::PieceSlice& bad) { bad.Clear(); }, "0 bytes"));
}

TEST(Messages, RowsAndLogitsKeepEveryBit) {
  const std::vector<float> rows = {1.0F, -0.0F, std::nanf("3"), INFINITY, 1e-42F, 3.0F};
  const auto packed = PackRows(pipeline::WireFormat::kF32, rows, 3);
  ASSERT_TRUE(packed);
  const auto unpacked = UnpackRows(pipeline::WireFormat::kF32, *packed, 3);
  ASSERT_TRUE(unpacked);
  EXPECT_EQ(PackLogits(*unpacked), *packed);
  EXPECT_EQ(PackLogits(rows), *packed);
  EXPECT_EQ(PackLogits(*UnpackLogits(*packed)), *packed);
  EXPECT_FALSE(PackRows(pipeline::WireFormat::kF32, rows, 4));
  EXPECT_FALSE(PackRows(pipeline::WireFormat::kF32, rows, 0));
  EXPECT_FALSE(UnpackRows(pipeline::WireFormat::kF32, *packed, 4));
  EXPECT_FALSE(UnpackLogits("12345"));
  EXPECT_TRUE(IsError(FromMessage(static_cast<v1::WireFormat>(4)), ErrorCode::kInvalidArgument,
                      {"wire format 4"}));
}

TEST(Messages, AnotherVersionIsRefused) {
  EXPECT_TRUE(CheckSchema("x", kSchemaVersion));
  EXPECT_TRUE(IsError(CheckSchema("gpu-1:7000", kSchemaVersion + 1), ErrorCode::kUnsupported,
                      {"gpu-1:7000", "same release"}));
}

}  // namespace
}  // namespace skippy::rpc
