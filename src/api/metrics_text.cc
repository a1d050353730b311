#include "api/metrics_text.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace skippy::api {
namespace {

std::string Escaped(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

// Counters are whole numbers most of the time, and 1e+06 reads badly.
std::string Number(double value) {
  if (!std::isfinite(value)) return "0";
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value == std::floor(value) && std::abs(value) < kExact) return fmt::format("{:.0f}", value);
  return fmt::format("{}", value);
}

}  // namespace

void MetricsText::Begin(std::string_view name, std::string_view help, std::string_view type) {
  name_ = name;
  fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void MetricsText::BeginCounter(std::string_view name, std::string_view help) {
  Begin(name, help, "counter");
}

void MetricsText::BeginGauge(std::string_view name, std::string_view help) {
  Begin(name, help, "gauge");
}

void MetricsText::Counter(std::string_view name, std::string_view help, double value) {
  BeginCounter(name, help);
  Sample({}, value);
}

void MetricsText::Gauge(std::string_view name, std::string_view help, double value) {
  BeginGauge(name, help);
  Sample({}, value);
}

void MetricsText::Sample(const Labels& labels, double value) {
  text_ += name_;
  if (!labels.empty()) {
    char separator = '{';
    for (const auto& [key, label] : labels) {
      fmt::format_to(std::back_inserter(text_), "{}{}=\"{}\"", separator, key, Escaped(label));
      separator = ',';
    }
    text_ += '}';
  }
  text_ += ' ';
  text_ += Number(value);
  text_ += '\n';
}

}  // namespace skippy::api
