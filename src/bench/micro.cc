#include "bench/micro.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

#include "bench/micro_movement.h"
#include "runtime/saved_state.h"
#include "skippy/clock.h"
#include "skippy/digest.h"
#include "skippy/prefix_cache.h"
#include "skippy/random.h"

namespace skippy::bench {
namespace {

using runtime::SavedState;

constexpr SeqId kLane{0};

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Runs `work` so often and gives the median time of a run.
template <class Work>
Result<double> Microseconds(std::uint32_t rounds, const Work& work) {
  using Time = std::chrono::steady_clock;
  std::vector<double> times;
  for (std::uint32_t i = 0; i < rounds; ++i) {
    const Time::time_point start = Time::now();
    SKIPPY_RETURN_IF_ERROR(work());
    times.push_back(std::chrono::duration<double, std::micro>(Time::now() - start).count());
  }
  return Median(std::move(times));
}

void Fill(std::vector<std::byte>& bytes, std::uint64_t seed) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = SplitMix64(seed + at);
    std::memcpy(bytes.data() + at, &word, std::min(sizeof(word), bytes.size() - at));
  }
}

SavedState RandomState(const MemoryShape& shape, Pos tokens, Pos page) {
  SavedState state = runtime::BuffersFor(shape, tokens, page, shape.WindowBegin(tokens));
  for (std::size_t i = 0; i < state.kv.size(); ++i) Fill(state.kv[i], i * page);
  Fill(state.window, 1);
  Fill(state.snapshot, 2);
  return state;
}

std::vector<Token> RandomText(std::uint32_t vocabulary, Pos tokens) {
  std::vector<Token> text(tokens);
  for (std::size_t i = 0; i < text.size(); ++i)
    text[i] = static_cast<Token>(SplitMix64(i) % vocabulary);
  return text;
}

class Measurement {
 public:
  Measurement(runtime::Runtime& runtime, const MicroOptions& options, Pos tokens)
      : runtime_(runtime),
        info_(runtime.info()),
        options_(options),
        text_(RandomText(info_.vocab, tokens)),
        state_(RandomState(info_.shape, tokens, options.page_tokens)) {}

  Result<MicroPoint> Run() {
    MicroPoint point;
    point.tokens = static_cast<Pos>(text_.size());
    point.bytes = state_.bytes();
    SKIPPY_TRY(point.memcpy_us, Copies());
    SKIPPY_TRY(point.digest_us, Digests());
    SKIPPY_RETURN_IF_ERROR(MeasureMovements(runtime_, state_, text_, options_.rounds, point));
    SKIPPY_RETURN_IF_ERROR(Cache(point));
    return point;
  }

 private:
  template <class Visit>
  void ForEachBlock(const Visit& visit) const {
    for (const auto& page : state_.kv) visit(page);
    if (!state_.window.empty()) visit(state_.window);
    if (!state_.snapshot.empty()) visit(state_.snapshot);
  }

  Result<double> Copies() {
    std::vector<std::byte> target(state_.bytes(), std::byte{1});
    return Microseconds(options_.rounds, [&]() -> Status {
      std::byte* out = target.data();
      ForEachBlock([&](const std::vector<std::byte>& block) {
        std::memcpy(out, block.data(), block.size());
        out += block.size();
      });
      return {};
    });
  }

  Result<double> Digests() {
    std::uint8_t all = 0;
    SKIPPY_TRY(const double time, Microseconds(options_.rounds, [&]() -> Status {
                 ForEachBlock([&](const std::vector<std::byte>& block) {
                   all = static_cast<std::uint8_t>(all ^ Blake3(block).bytes[0]);
                 });
                 return {};
               }));
    sink_ = all;
    return time;
  }

  CacheOptions OptionsOfCache() const {
    CacheOptions options;
    options.shape = info_.shape;
    options.policy = info_.policy;
    options.page_tokens = options_.page_tokens;
    options.max_bytes = 2 * state_.bytes() + (std::uint64_t{64} << 20U);
    return options;
  }

  // Fills what the ticket wants from the state; only that the bytes differ matters.
  void Fill(const RecordTicket& ticket) const {
    std::uint64_t seed = 0;
    const auto fill = [&seed](MutableByteSpan buffer) {
      ++seed;
      if (buffer.size() >= sizeof(seed)) std::memcpy(buffer.data(), &seed, sizeof(seed));
    };
    for (const RecordTicket::Rows& rows : ticket.rows()) fill(rows.buffer);
    fill(ticket.snapshot());
  }

  Status Cache(MicroPoint& point) {
    const SteadyClock clock;
    PrefixCache cache(OptionsOfCache(), clock);
    std::vector<double> records;
    for (std::uint32_t i = 0; i < options_.rounds; ++i) {
      cache.Clear();
      RecordRequest request;
      request.tokens = text_;
      request.snapshot = info_.shape.HasSnapshot();
      request.window_available_from = state_.window_from;
      request.prompt_end = true;
      std::optional<RecordTicket> ticket;
      SKIPPY_TRY(const double begin, Microseconds(1, [&]() -> Status {
                   RecordPlan plan = cache.BeginRecord(request);
                   ticket = std::move(plan.ticket);
                   if (ticket) return {};
                   return Err(ErrorCode::kInternal, "a record was refused");
                 }));
      Fill(*ticket);
      SKIPPY_TRY(const double commit,
                 Microseconds(1, [&] { return cache.Commit(std::move(*ticket)); }));
      records.push_back(begin + commit);
    }
    point.record_us = Median(std::move(records));
    LookupQuery query;
    query.tokens = text_;
    query.max_boundary = static_cast<Pos>(text_.size());
    SKIPPY_TRY(point.lookup_us, Microseconds(options_.rounds, [&]() -> Status {
                 const LookupResult found = cache.Lookup(query);
                 if (found.hit && found.hit->boundary() == text_.size()) return {};
                 return Err(ErrorCode::kInternal, "what was recorded is not found");
               }));
    return {};
  }

  runtime::Runtime& runtime_;
  const runtime::RuntimeInfo& info_;
  const MicroOptions& options_;
  const std::vector<Token> text_;
  const SavedState state_;
  volatile std::uint8_t sink_ = 0;  // so that digests are not optimised away
};

}  // namespace

Result<std::vector<MicroPoint>> MeasureMicro(runtime::Runtime& runtime,
                                             const MicroOptions& options) {
  std::vector<Pos> lengths = options.lengths;
  std::sort(lengths.begin(), lengths.end());
  std::vector<MicroPoint> points;
  for (const Pos tokens : lengths) {
    if (tokens == 0 || tokens > runtime.info().context) continue;
    runtime.Clear(kLane);
    SKIPPY_TRY(const MicroPoint point, Measurement(runtime, options, tokens).Run());
    points.push_back(point);
  }
  runtime.Clear(kLane);
  if (points.empty())
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("no length fits into the context of {} positions; use a larger "
                           "--ctx-size or shorter --lengths",
                           runtime.info().context));
  return points;
}

}  // namespace skippy::bench
