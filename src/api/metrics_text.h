// Prometheus' text exposition format, version 0.0.4. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skippy::api {

// One family at a time: begin it, add its samples. Values that are not finite become 0, names and
// labels are the caller's constants; label values are escaped.
class MetricsText {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

  void Counter(std::string_view name, std::string_view help, double value);
  void Gauge(std::string_view name, std::string_view help, double value);
  // For families with labels: Begin..., then Sample for each series.
  void BeginCounter(std::string_view name, std::string_view help);
  void BeginGauge(std::string_view name, std::string_view help);
  void Sample(const Labels& labels, double value);

  const std::string& text() const { return text_; }

 private:
  void Begin(std::string_view name, std::string_view help, std::string_view type);
  std::string text_;
  std::string name_;
};

}  // namespace skippy::api
