#include "world.h"

#include <fmt/format.h>

#include <cstring>

namespace skippy::sim {
namespace {

using runtime::fake::FaultPlan;
using runtime::fake::ShapeKind;

Digest CollideAlways(ByteSpan) { return {}; }

// Two bits of the real digest: some collide, some do not.
Digest CollideOften(ByteSpan bytes) {
  Digest digest;
  digest.bytes[0] = Blake3(bytes).bytes[0] & 3;
  return digest;
}

std::uint32_t Permille(Random& random) {
  // Mostly no fault of a kind at all; rarely nothing but faults.
  const std::uint64_t dice = random.Below(10);
  if (dice < 6) return 0;
  return dice < 9 ? random.Between(5, 60) : random.Between(100, 600);
}

runtime::fake::FakeOptions RandomRuntime(Random& random) {
  runtime::fake::FakeOptions fake;
  fake.shape = static_cast<ShapeKind>(random.Below(runtime::fake::kShapeKindCount));
  fake.lanes = random.Between(1, 4);
  fake.chunk = random.OneOf<std::uint32_t>({1, 4, 8, 16, 16, 32});
  fake.context = random.OneOf<std::uint32_t>({48, 96, 160, 256});
  fake.window_tokens = random.OneOf<std::uint32_t>({1, 3, 12, 24, 60});
  fake.weights_seed = random.Next();
  return fake;
}

void SetShape(CacheOptions& cache, const runtime::fake::FakeOptions& fake) {
  const runtime::fake::FakeRuntime probe(fake);
  cache.shape = probe.info().shape;
  cache.policy = probe.info().policy;
}

CacheOptions RandomCache(Random& random, const runtime::fake::FakeOptions& fake) {
  CacheOptions cache;
  SetShape(cache, fake);
  cache.page_tokens = random.OneOf<std::uint32_t>({1, 2, 4, 8, 16, 64});
  const std::uint64_t token = cache.shape.kv_row_bytes + cache.shape.window_row_bytes + 1;
  switch (random.Below(5)) {
    case 0: cache.max_bytes = random.Between(1, 200); break;  // evict always
    case 1: cache.max_bytes = token * random.Between(20, 200); break;
    case 2: cache.max_bytes = token * random.Between(100, 1000) + 2000; break;
    default: cache.max_bytes = std::uint64_t{1} << 26; break;
  }
  cache.max_logits_bytes =
      random.Chance(70) ? cache.max_bytes / 2 : random.Between(0, 2) * cache.shape.logits_bytes;
  if (cache.max_logits_bytes > cache.max_bytes) cache.max_logits_bytes = cache.max_bytes;
  if (random.Chance(20)) cache.max_namespace_bytes = cache.max_bytes / random.Between(1, 4) + 1;
  if (random.Chance(20)) cache.max_entries = random.Between(1, 12);
  if (random.Chance(20)) cache.min_hit_tokens = random.Between(1, 30);
  if (random.Chance(50)) cache.eviction = EvictionPolicyKind::kBenefitPerByte;
  cache.max_tombstones = random.OneOf<std::uint32_t>({0, 3, 4096});
  if (random.Chance(20)) cache.digest = &CollideAlways;
  if (random.Chance(20)) cache.digest = &CollideOften;
  return cache;
}

}  // namespace

WorldConfig RandomWorld(Random& random) {
  WorldConfig world;
  world.fake = RandomRuntime(random);
  world.engine.exactness = random.Chance(30) ? Exactness::kBit : Exactness::kToken;
  // In the bit-exact setting low bits are compared, so they had better depend on the shape of
  // passes.
  world.fake.shape_noise = world.engine.exactness == Exactness::kBit || random.Chance(30);
  world.cache = RandomCache(random, world.fake);
  world.engine.max_queue = random.OneOf<std::uint32_t>({2, 8, 64});
  world.engine.hot_lanes = random.Chance(80);
  world.engine.share_prefill = random.Chance(80);
  world.engine.cache = random.Chance(96);
  world.engine.snapshot_spacing = random.OneOf<std::uint32_t>({0, 1, 8, 16, 64});
  world.faults.seed = random.Next();
  if (random.Chance(60)) {
    FaultPlan& faults = world.faults;
    faults.fail_decode.permille = Permille(random);
    faults.nan_decode.permille = Permille(random) / 4;
    faults.fail_import.permille = Permille(random);
    faults.lie_import.permille = Permille(random);
    faults.fail_export.permille = Permille(random);
    world.passes_may_fail = faults.fail_decode.permille > 0 || faults.nan_decode.permille > 0;
  }
  world.alphabet = random.OneOf<std::uint32_t>({2, 8, 64, 64});
  world.events = random.Between(15, 45);
  return world;
}

WorldConfig EconomyWorld(Random& random) {
  WorldConfig world;
  world.fake = RandomRuntime(random);
  world.fake.context = 256;
  SetShape(world.cache, world.fake);
  world.cache.page_tokens = random.OneOf<std::uint32_t>({1, 2, 4, 8, 16, 64});
  world.cache.max_bytes = std::uint64_t{1} << 30;
  world.engine.max_queue = 64;
  world.engine.snapshot_spacing = world.fake.chunk;
  world.events = 25;
  return world;
}

std::string WorldConfig::Describe() const {
  const char* digest = cache.digest == &CollideAlways  ? "colliding"
                       : cache.digest == &CollideOften ? "2 bits"
                                                       : "blake3";
  return fmt::format(
      "shape={} lanes={} chunk={} context={} window={} noise={} exactness={} page={} max_bytes={} "
      "max_logits={} namespace_bytes={} entries={} min_hit={} eviction={} digest={} hot={} "
      "share={} "
      "cache={} spacing={} queue={} faults(decode={} nan={} import={} lie={} export={}) "
      "alphabet={}",
      runtime::fake::ShapeKindName(fake.shape), fake.lanes, fake.chunk, fake.context,
      fake.window_tokens, fake.shape_noise, engine.exactness == Exactness::kBit ? "bit" : "token",
      cache.page_tokens, cache.max_bytes, cache.max_logits_bytes, cache.max_namespace_bytes,
      cache.max_entries, cache.min_hit_tokens, static_cast<int>(cache.eviction), digest,
      engine.hot_lanes, engine.share_prefill, engine.cache, engine.snapshot_spacing,
      engine.max_queue, faults.fail_decode.permille, faults.nan_decode.permille,
      faults.fail_import.permille, faults.lie_import.permille, faults.fail_export.permille,
      alphabet);
}

}  // namespace skippy::sim
