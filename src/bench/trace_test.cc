#include "bench/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace skippy::bench {
namespace {

using testing::HasSubstr;

class TraceTest : public testing::Test {
 protected:
  TraceTest()
      : path_(std::filesystem::path(testing::TempDir()) /
              (std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) +
               ".jsonl")) {}
  ~TraceTest() override { std::filesystem::remove(path_); }
  Result<Trace> Read(const std::string& text, std::size_t limit = 0) {
    std::ofstream(path_) << text;
    return ReadTrace(path_.string(), 512, limit);
  }
  void ExpectRefused(const std::string& line, const char* words) {
    const std::string good =
        R"({"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [1]})";
    const auto trace = Read(good + "\n" + line + "\n");
    ASSERT_FALSE(trace) << line;
    EXPECT_EQ(trace.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(trace.error().message, HasSubstr(":2: "));
    EXPECT_THAT(trace.error().message, HasSubstr(words));
  }

  const std::filesystem::path path_;
};

TEST_F(TraceTest, ReadsWhatMooncakePublishes) {
  const auto trace = Read(
      R"({"timestamp": 27482, "input_length": 1030, "output_length": 52, "hash_ids": [46, 47, 48]})"
      "\n\n"
      R"({"timestamp": 30535, "input_length": 512, "output_length": 0, "hash_ids": [46]})");
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->requests.size(), 2U);
  EXPECT_EQ(trace->requests[0], (TraceRequest{27482, 1030, 52, {46, 47, 48}}));
  EXPECT_EQ(trace->requests[1], (TraceRequest{30535, 512, 0, {46}}));
  EXPECT_EQ(trace->input_tokens(), 1542U);
  EXPECT_EQ(trace->longest(), 1030U);
}

TEST_F(TraceTest, StopsAtTheLimit) {
  const std::string line =
      R"({"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [1]})"
      "\n";
  EXPECT_EQ(Read(line + line + line + "not JSON", 3)->requests.size(), 3U);
}

TEST_F(TraceTest, MalformedLinesAreNamed) {
  ExpectRefused("not JSON", "not a JSON object");
  ExpectRefused("[1]", "not a JSON object");
  ExpectRefused(R"({"input_length": 5, "output_length": 1, "hash_ids": [1]})", "'timestamp'");
  ExpectRefused(R"({"timestamp": 0, "input_length": -5, "output_length": 1, "hash_ids": [1]})",
                "'input_length'");
  ExpectRefused(R"({"timestamp": 0, "input_length": 0, "output_length": 1, "hash_ids": []})", "0");
  ExpectRefused(R"({"timestamp": 0, "input_length": 1e30, "output_length": 1, "hash_ids": [1]})",
                "'input_length'");
  ExpectRefused(
      R"({"timestamp": 0, "input_length": 99999999, "output_length": 1, "hash_ids": [1]})",
      "99999999");
  ExpectRefused(R"({"timestamp": 0, "input_length": 513, "output_length": 1, "hash_ids": [1]})",
                "2 blocks of 512");
  ExpectRefused(R"({"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": ["a"]})",
                "'hash_ids'");
  ExpectRefused(R"({"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": 1})",
                "'hash_ids'");
}

TEST_F(TraceTest, NoFileAndNoRequestAreErrors) {
  EXPECT_EQ(ReadTrace("/no/such/trace", 512, 0).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(Read("\n \n").error().message, HasSubstr("no request"));
}

Trace TwoThatShareABlock() { return {512, {{0, 1030, 0, {1, 2, 3}}, {0, 700, 0, {1, 9}}}}; }

TEST(TracePromptTest, PromptsShareExactlyTheBlocksThatTheirIdsShare) {
  const Trace trace = TwoThatShareABlock();
  const auto first = PromptOf(trace, trace.requests[0], 1000);
  const auto second = PromptOf(trace, trace.requests[1], 1000);
  ASSERT_EQ(first.size(), 1030U);
  ASSERT_EQ(second.size(), 700U);
  const auto [at, other] = std::mismatch(first.begin(), first.end(), second.begin(), second.end());
  // Two random tokens may be the same.
  EXPECT_GE(at - first.begin(), 512);
  EXPECT_LE(at - first.begin(), 516);
  for (const Token token : first) EXPECT_LT(token, 1000);
}

TEST(TracePromptTest, ScalingKeepsTheSharing) {
  const auto scaled = Scaled(TwoThatShareABlock(), 64);
  ASSERT_TRUE(scaled) << scaled.error().message;
  EXPECT_EQ(*scaled, (Trace{8, {{0, 17, 0, {1, 2, 3}}, {0, 11, 0, {1, 9}}}}));
  EXPECT_FALSE(Scaled(TwoThatShareABlock(), 100));
  EXPECT_FALSE(Scaled(TwoThatShareABlock(), 0));
}

}  // namespace
}  // namespace skippy::bench
