#include "skippy/clock.h"

#include <chrono>

namespace skippy {

Tick SteadyClock::Now() const {
  const auto since_epoch = std::chrono::steady_clock::now().time_since_epoch();
  return Tick{std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count()};
}

}  // namespace skippy
