// The only way to the time. Tests use ManualClock and never sleep.
#pragma once

#include "skippy/types.h"

namespace skippy {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Tick Now() const = 0;  // monotonic microseconds
};

class SteadyClock final : public Clock {
 public:
  Tick Now() const override;
};

class ManualClock final : public Clock {
 public:
  Tick Now() const override { return now_; }
  void Advance(std::int64_t microseconds) { now_.value += microseconds; }

 private:
  Tick now_{};
};

}  // namespace skippy
