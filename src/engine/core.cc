#include "engine/core.h"

#include <limits>

namespace skippy::engine {

Core::Core(const EngineOptions& engine_options, runtime::Runtime& the_runtime,
           PrefixCache& the_cache, const Clock& the_clock)
    : options(engine_options),
      runtime(the_runtime),
      keeper(dynamic_cast<runtime::StateKeeper*>(&the_runtime)),
      cache(the_cache),
      clock(the_clock) {
  lanes.resize(runtime.info().lanes);
  for (std::uint32_t i = 0; i < lanes.size(); ++i) lanes[i].seq = SeqId{i};
}

bool Core::Caching() const {
  const PayloadPolicy policy = info().policy;
  return options.cache &&
         (policy == PayloadPolicy::kResidentKv || policy == PayloadPolicy::kKvRecurrent);
}

Pos Core::Usable(Pos boundary) const {
  return BitExact() ? boundary / info().chunk * info().chunk : boundary;
}

double Core::MillisecondsSince(Tick start) const {
  return static_cast<double>(clock.Now().value - start.value) / 1000.0;
}

void Core::ClearLane(Lane& lane) {
  runtime.Clear(lane.seq);
  lane.resident.clear();
  lane.recorded_end = 0;
  lane.grid_end = 0;
  lane.has_decode_rows = false;
  lane.record_again_from = 0;
}

bool Core::CheckLane(Lane& lane) {
  if (runtime.End(lane.seq) == lane.end()) return true;
  ClearLane(lane);
  return false;
}

Status Core::UseAdapters(const AdapterSet& adapters) {
  if (adapters_known_ && adapters_in_use_ == adapters) return {};
  adapters_known_ = false;
  SKIPPY_RETURN_IF_ERROR(runtime.UseAdapters(adapters));
  adapters_in_use_ = adapters;
  adapters_known_ = true;
  return {};
}

bool LogitsAreSane(std::span<const float> logits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  bool bad = false;
  bool any = false;
  // Branch-free, so that the compiler vectorises it: it runs over the vocabulary at every step.
  for (const float logit : logits) {
    bad |= !(logit < kInfinity);
    any |= logit > -kInfinity;
  }
  return any && !bad;
}

}  // namespace skippy::engine
