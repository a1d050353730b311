#include "bench/micro.h"

#include <gtest/gtest.h>

#include "bench/micro_report.h"
#include "runtime/fake/fake_runtime.h"

namespace skippy::bench {
namespace {

using runtime::fake::FakeOptions;
using runtime::fake::FakeRuntime;
using runtime::fake::FaultPlan;
using runtime::fake::ShapeKind;

FakeOptions OptionsOf(ShapeKind shape) {
  FakeOptions options;
  options.shape = shape;
  options.context = 300;
  return options;
}

TEST(MicroTest, EveryShapeIsMeasuredAtTheLengthsThatFit) {
  for (int i = 0; i < runtime::fake::kShapeKindCount; ++i) {
    const auto shape = static_cast<ShapeKind>(i);
    SCOPED_TRACE(runtime::fake::ShapeKindName(shape));
    FakeRuntime runtime(OptionsOf(shape));
    const auto points = MeasureMicro(runtime, {.lengths = {1024, 200, 70}, .rounds = 3});
    ASSERT_TRUE(points) << points.error().message;
    ASSERT_EQ(points->size(), 2U);
    EXPECT_EQ((*points)[0].tokens, 70U);
    EXPECT_EQ((*points)[1].tokens, 200U);
    const MemoryShape& memory = runtime.info().shape;
    for (const MicroPoint& point : *points) {
      EXPECT_EQ(point.bytes,
                point.tokens * memory.kv_row_bytes +
                    (point.tokens - memory.WindowBegin(point.tokens)) * memory.window_row_bytes +
                    memory.snapshot_bytes);
      for (const double time : {point.memcpy_us, point.digest_us, point.record_us, point.lookup_us})
        EXPECT_GT(time, 0);
      for (const Movement& movement : {point.export_pages, point.export_call, point.import_call}) {
        EXPECT_GT(movement.p50_us, 0);
        EXPECT_GE(movement.p95_us, movement.p50_us);
        EXPECT_GT(movement.cpu_us, 0);
      }
    }
    EXPECT_EQ(runtime.End(SeqId{0}), 0U);
    EXPECT_EQ(runtime.counters().tokens_evaluated, 0U);
    const std::string table = MicroTable({"fake", "fake", memory, 64, *points});
    EXPECT_NE(table.find("GB/s"), std::string::npos) << table;
    EXPECT_NE(table.find("a call a page"), std::string::npos) << table;
  }
}

TEST(MicroTest, NoLengthThatFitsIsAnError) {
  FakeRuntime runtime(OptionsOf(ShapeKind::kAttention));
  const auto points = MeasureMicro(runtime, {.lengths = {301, 0}});
  ASSERT_FALSE(points);
  EXPECT_EQ(points.error().code, ErrorCode::kInvalidArgument);
}

TEST(MicroTest, AFailingRuntimeIsTold) {
  FaultPlan faults;
  faults.fail_import.permille = 1000;
  FakeRuntime runtime(OptionsOf(ShapeKind::kHybrid), faults);
  EXPECT_FALSE(MeasureMicro(runtime, {.lengths = {70}}));
}

}  // namespace
}  // namespace skippy::bench
