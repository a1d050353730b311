#include "api/metrics_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace skippy::api {
namespace {

TEST(MetricsText, FamilyHasHelpTypeAndValue) {
  MetricsText out;
  out.Counter("a_total", "what it counts", 3);
  EXPECT_EQ(out.text(), "# HELP a_total what it counts\n# TYPE a_total counter\na_total 3\n");
}

TEST(MetricsText, LabelledSeriesShareOneHeading) {
  MetricsText out;
  out.BeginGauge("g", "h");
  out.Sample({{"tier", "host"}, {"kind", "x"}}, 1.5);
  out.Sample({{"tier", "device"}}, 0);
  EXPECT_EQ(out.text(),
            "# HELP g h\n# TYPE g gauge\ng{tier=\"host\",kind=\"x\"} 1.5\ng{tier=\"device\"} 0\n");
}

TEST(MetricsText, LabelValuesAreEscaped) {
  MetricsText out;
  out.BeginGauge("g", "h");
  out.Sample({{"l", "a\"b\\c\nd"}}, 1);
  EXPECT_NE(out.text().find(R"(g{l="a\"b\\c\nd"} 1)"), std::string::npos);
}

TEST(MetricsText, LargeCountersAreWrittenOutAndOddValuesAreZero) {
  MetricsText out;
  out.Counter("big_total", "h", 123456789012345.0);
  out.Gauge("nan", "h", std::numeric_limits<double>::quiet_NaN());
  out.Gauge("inf", "h", std::numeric_limits<double>::infinity());
  EXPECT_NE(out.text().find("big_total 123456789012345\n"), std::string::npos);
  EXPECT_NE(out.text().find("nan 0\n"), std::string::npos);
  EXPECT_NE(out.text().find("inf 0\n"), std::string::npos);
}

}  // namespace
}  // namespace skippy::api
