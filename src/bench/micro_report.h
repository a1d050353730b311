// Micro measurements as a table and as JSON.
#pragma once

#include <string>
#include <vector>

#include "bench/micro.h"

namespace skippy::bench {

struct MicroReport {
  std::string model;
  std::string runtime_build;
  MemoryShape shape;
  std::uint32_t page_tokens = 0;
  std::vector<MicroPoint> points;
};

std::string MicroTable(const MicroReport& report);
// Schema "skippy-micro", version 1.
std::string MicroJson(const MicroReport& report);

}  // namespace skippy::bench
