#include "runtime/fake/fake_runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "runtime/fake/fake_floats.h"

namespace skippy::runtime::fake {
namespace {

// The one layer that a whole fake model has.
StateLayout MakeLayout(const FakeOptions& options) {
  StateLayout layout = LayoutOf(options.shape, options.window_tokens, options.chunk);
  layout.shape_noise = options.shape_noise;
  if (layout.snapshot_bytes > 0 && options.snapshot_bytes > layout.snapshot_bytes)
    layout.snapshot_padding = options.snapshot_bytes - layout.snapshot_bytes;
  return layout;
}

RuntimeInfo MakeInfo(const FakeOptions& options) {
  RuntimeInfo info;
  const StateLayout layout = MakeLayout(options);
  info.shape = ShapeOf({&layout, 1});
  info.shape.logits_bytes = options.vocab * sizeof(float);
  info.policy = info.shape.HasSnapshot() ? PayloadPolicy::kKvRecurrent : PayloadPolicy::kResidentKv;
  if (!options.exact_exports) {
    info.policy = PayloadPolicy::kOff;
    info.policy_reason = "exports of this memory are not exact";
  }
  info.lanes = options.lanes;
  info.context = options.context;
  info.chunk = options.chunk;
  info.vocab = options.vocab;
  info.identity.architecture = std::string(ShapeKindName(options.shape));
  info.identity.runtime_build = "fake";
  info.identity.context = options.context;
  info.identity.chunk = options.chunk;
  std::memcpy(info.identity.model.bytes.data(), &options.weights_seed, sizeof(std::uint64_t));
  return info;
}

}  // namespace

FakeRuntime::FakeRuntime(const FakeOptions& options, FaultPlan faults)
    : options_(options),
      info_(MakeInfo(options)),
      lanes_(info_, std::vector{MakeLayout(options)}, false, std::move(faults)) {}

Status FakeRuntime::CheckTokens(std::span<const DecodeItem> items) const {
  for (const DecodeItem& item : items)
    for (const Token token : item.tokens)
      if (token < 0 || static_cast<std::uint32_t>(token) >= options_.vocab)
        return Err(ErrorCode::kInvalidArgument,
                   fmt::format("token {} is not in the vocabulary", token));
  return {};
}

Status FakeRuntime::Decode(std::span<const DecodeItem> items) {
  SKIPPY_RETURN_IF_ERROR(CheckTokens(items));
  logits_.clear();
  std::vector<FakeStep> steps;
  for (const DecodeItem& item : items) steps.push_back({item.lane, item.pos, item.tokens.size()});
  SKIPPY_TRY(const bool nan, lanes_.BeginDecode(steps));
  logits_.resize(items.size());
  const std::uint64_t salt = Mix(options_.weights_seed, adapter_salt_);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::uint64_t shape = Mix(items.size(), items[i].tokens.size());
    DualHash hash;
    for (const Token token : items[i].tokens)
      hash = lanes_.state(items[i].lane, 0).Step(token, salt, shape);
    if (!items[i].want_logits) continue;
    logits_[i].resize(options_.vocab);
    WriteLogits(hash, logits_[i]);
    if (nan)
      std::fill(logits_[i].begin(), logits_[i].end(), std::numeric_limits<float>::quiet_NaN());
  }
  return {};
}

std::span<const float> FakeRuntime::Logits(std::size_t item) {
  if (item >= logits_.size()) return {};
  return logits_[item];
}

Status FakeRuntime::Copy(SeqId from, SeqId to) {
  if (!options_.can_copy) return Err(ErrorCode::kUnsupported, "no sequence copy");
  return lanes_.Copy(from, to);
}

Result<std::vector<AdapterIdentity>> FakeRuntime::ResolveAdapters(
    std::span<const std::pair<std::uint32_t, float>> adapters) const {
  std::vector<AdapterIdentity> identities;
  for (const auto& [index, scale] : adapters) {
    if (index >= options_.adapters) {
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("adapter {} is not loaded ({} are)", index, options_.adapters));
    }
    AdapterIdentity identity;
    identity.content.bytes[0] = static_cast<std::uint8_t>(index + 1);
    identity.scale = scale;
    identities.push_back(identity);
  }
  return identities;
}

Status FakeRuntime::UseAdapters(std::span<const std::pair<std::uint32_t, float>> adapters) {
  if (auto resolved = ResolveAdapters(adapters); !resolved) {
    return tl::unexpected<Error>(std::move(resolved).error());
  }
  adapter_salt_ = 0;
  for (const auto& [index, scale] : adapters) {
    if (scale == 0.0F) continue;  // adds nothing to the weights
    adapter_salt_ = Mix(adapter_salt_, Mix(index + 1, std::bit_cast<std::uint32_t>(scale)));
  }
  return {};
}

}  // namespace skippy::runtime::fake
