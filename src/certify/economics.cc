#include "certify/economics.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "certify/port_run.h"
#include "runtime/saved_state.h"

namespace skippy::certify {
namespace {

constexpr int kRepeats = 3;  // the best of them counts
constexpr double kMicrosecondsPerMs = 1000.0;

double MsSince(const Clock& clock, Tick start) {
  return static_cast<double>(clock.Now().value - start.value) / kMicrosecondsPerMs;
}

double GigabytesPerSecond(std::size_t bytes, double ms) {
  return ms > 0 ? static_cast<double>(bytes) / ms / 1e6 : 0;
}

double CopyMs(const Clock& clock, const runtime::SavedState& saved) {
  std::vector<std::byte> target(saved.bytes());
  double best = 0;
  for (int i = 0; i < kRepeats; ++i) {
    const Tick start = clock.Now();
    std::byte* out = target.data();
    const auto copy = [&](const std::vector<std::byte>& from) {
      if (!from.empty()) std::memcpy(out, from.data(), from.size());
      out += from.size();
    };
    for (const auto& page : saved.kv) copy(page);
    copy(saved.window);
    copy(saved.snapshot);
    const double ms = MsSince(clock, start);
    best = i == 0 ? ms : std::min(best, ms);
  }
  return best;
}

Result<double> RestoreMs(const Clock& clock, runtime::Runtime& port,
                         const runtime::SavedState& saved, TokenSpan tokens) {
  double best = 0;
  for (int i = 0; i < kRepeats; ++i) {
    const Tick start = clock.Now();
    SKIPPY_RETURN_IF_ERROR(runtime::RestoreInto(port, SeqId{0}, saved, tokens, saved.end));
    const double ms = MsSince(clock, start);
    best = i == 0 ? ms : std::min(best, ms);
  }
  return best;
}

// Straight lines through the last two measured points (or the last and the origin).
void Derive(CostPoint& point, const std::vector<CostPoint>& measured) {
  if (measured.empty()) return;
  const CostPoint& last = measured.back();
  const CostPoint before = measured.size() > 1 ? measured[measured.size() - 2] : CostPoint{};
  const double run = static_cast<double>(last.tokens - before.tokens);
  const double more = static_cast<double>(point.tokens) - static_cast<double>(last.tokens);
  const auto extend = [&](double at_last, double at_before) {
    return std::max(0.0, at_last + more * (at_last - at_before) / run);
  };
  point.recompute_ms = extend(last.recompute_ms, before.recompute_ms);
  point.restore_ms = last.bytes > 0 ? last.restore_ms * static_cast<double>(point.bytes) /
                                          static_cast<double>(last.bytes)
                                    : 0;
}

// Restoring takes a fixed time and a time a token; computing a time a token.
std::optional<Pos> BreakEven(const std::vector<CostPoint>& measured) {
  if (measured.empty() || measured.front().recompute_ms <= 0) return std::nullopt;
  const CostPoint& first = measured.front();
  const CostPoint& last = measured.back();
  const double tokens = static_cast<double>(first.tokens);
  double a_token = first.restore_ms / tokens;
  double fixed = 0;
  if (measured.size() > 1) {
    a_token = std::max(0.0, (last.restore_ms - first.restore_ms) /
                                static_cast<double>(last.tokens - first.tokens));
    fixed = std::max(0.0, first.restore_ms - a_token * tokens);
  }
  const double saved_a_token = first.recompute_ms / tokens - a_token;
  if (saved_a_token <= 0) return std::nullopt;
  return static_cast<Pos>(std::max(1.0, std::ceil(fixed / saved_a_token)));
}

}  // namespace

std::uint64_t StateBytes(const MemoryShape& shape, Pos tokens) {
  const std::uint64_t window_rows = tokens - shape.WindowBegin(tokens);
  return tokens * shape.kv_row_bytes + window_rows * shape.window_row_bytes + shape.snapshot_bytes;
}

Result<Economics> MeasureEconomics(Arena& arena, const runtime::RuntimeOptions& runtime,
                                   const EconomicsOptions& options) {
  const MemoryShape& shape = arena.shape();
  Economics result;
  result.kv_bytes_per_token = shape.kv_row_bytes;
  result.window_bytes_per_token = shape.window_row_bytes;
  result.window_tokens = shape.window_tokens;
  result.snapshot_bytes = shape.snapshot_bytes;
  result.logits_bytes = shape.logits_bytes;
  result.expanded_bytes_per_token = arena.subject().ExpandedRowBytes(runtime);

  runtime::Runtime& port = arena.Tested();
  const Clock& clock = arena.clock();
  std::vector<CostPoint> measured;
  double computed_ms = 0;
  for (const Pos tokens : options.lengths) {
    CostPoint point{tokens, false, StateBytes(shape, tokens)};
    Derive(point, measured);
    const bool fits = tokens <= arena.info().context &&
                      (measured.empty() || point.recompute_ms < options.max_seconds * 1000);
    if (fits) {
      const std::vector<Token> text = arena.Text(tokens, 0);
      const Tick start = clock.Now();
      SKIPPY_TRY([[maybe_unused]] const Logits logits, Prefill(port, SeqId{0}, text, tokens));
      computed_ms += MsSince(clock, start);
      SKIPPY_TRY(const runtime::SavedState saved,
                 runtime::Save(port, SeqId{0}, arena.options().page_tokens));
      point.measured = true;
      point.recompute_ms = computed_ms;
      SKIPPY_TRY(point.restore_ms, RestoreMs(clock, port, saved, text));
      point.restore_gb_s = GigabytesPerSecond(saved.bytes(), point.restore_ms);
      point.memcpy_gb_s = GigabytesPerSecond(saved.bytes(), CopyMs(clock, saved));
      measured.push_back(point);
    }
    result.points.push_back(point);
  }
  result.break_even_tokens = BreakEven(measured);
  ClearLanes(port);
  return result;
}

}  // namespace skippy::certify
