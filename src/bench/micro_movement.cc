#include "bench/micro_movement.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>
#include <vector>

namespace skippy::bench {
namespace {

using runtime::Runtime;
using runtime::SavedState;

constexpr SeqId kLane{0};

double CpuMicroseconds() {
  std::timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

double Quantile(std::vector<double>& values, std::size_t percent) {
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) * percent / 100];
}

struct Contestant {
  std::function<Status()> work;
  Movement* result;
  std::vector<double> wall, cpu;

  Status Run() {
    using Time = std::chrono::steady_clock;
    const double cpu_before = CpuMicroseconds();
    const Time::time_point start = Time::now();
    SKIPPY_RETURN_IF_ERROR(work());
    wall.push_back(std::chrono::duration<double, std::micro>(Time::now() - start).count());
    cpu.push_back(CpuMicroseconds() - cpu_before);
    return {};
  }
  void Judge() { *result = {Quantile(wall, 50), Quantile(wall, 95), Quantile(cpu, 50)}; }
};

// In turns, the order reversed in every second round.
Status Interleave(std::uint32_t rounds, std::vector<Contestant> contestants) {
  for (std::uint32_t i = 0; i < rounds; ++i) {
    for (Contestant& contestant : contestants) SKIPPY_RETURN_IF_ERROR(contestant.Run());
    std::reverse(contestants.begin(), contestants.end());
  }
  for (Contestant& contestant : contestants) contestant.Judge();
  return {};
}

}  // namespace

Status MeasureMovements(Runtime& runtime, const SavedState& state, TokenSpan tokens,
                        std::uint32_t rounds, MicroPoint& point) {
  SKIPPY_RETURN_IF_ERROR(Interleave(
      rounds, {{[&] { return runtime::RestoreInto(runtime, kLane, state, tokens, state.end); },
                &point.import_call,
                {},
                {}}}));
  // Into buffers that exist, as the engine does.
  SavedState pages = state;
  SavedState whole =
      runtime::BuffersFor(runtime.info().shape, state.end, state.end, state.window_from);
  const auto export_into = [&runtime](SavedState& out) {
    return [&runtime, &out] { return runtime::ExportInto(runtime, kLane, out); };
  };
  return Interleave(rounds, {{export_into(pages), &point.export_pages, {}, {}},
                             {export_into(whole), &point.export_call, {}, {}}});
}

}  // namespace skippy::bench
