#include "certify/mutations.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>

namespace skippy::certify_test {
namespace {

using runtime::DecodeItem;
using runtime::ImportRequest;
using runtime::Runtime;
using Adapters = std::span<const std::pair<std::uint32_t, float>>;

class Forwarding : public Runtime {
 public:
  explicit Forwarding(std::unique_ptr<Runtime> sound) : sound_(std::move(sound)) {}
  const runtime::RuntimeInfo& info() const override { return sound_->info(); }
  Status Decode(std::span<const DecodeItem> items) override { return sound_->Decode(items); }
  std::span<const float> Logits(std::size_t item) override { return sound_->Logits(item); }
  Pos End(SeqId lane) const override { return sound_->End(lane); }
  Pos WindowHeldFrom(SeqId lane) const override { return sound_->WindowHeldFrom(lane); }
  bool Truncate(SeqId lane, Pos end) override { return sound_->Truncate(lane, end); }
  void Clear(SeqId lane) override { sound_->Clear(lane); }
  Status Copy(SeqId from, SeqId to) override { return sound_->Copy(from, to); }
  Status ExportRows(SeqId lane, Component component, PosRange rows, MutableByteSpan out) override {
    return sound_->ExportRows(lane, component, rows, out);
  }
  Status ExportSnapshot(SeqId lane, MutableByteSpan out) override {
    return sound_->ExportSnapshot(lane, out);
  }
  Status Import(const ImportRequest& request) override { return sound_->Import(request); }
  Result<std::vector<AdapterIdentity>> ResolveAdapters(Adapters adapters) const override {
    return sound_->ResolveAdapters(adapters);
  }
  Status UseAdapters(Adapters adapters) override { return sound_->UseAdapters(adapters); }

 protected:
  std::unique_ptr<Runtime> sound_;
};

void FlipMiddleBit(MutableByteSpan bytes) { bytes[bytes.size() / 2] ^= std::byte{1}; }

// Owns changed copies of the slices' blocks.
class EditedSlices {
 public:
  EditedSlices(std::span<const RowSlice> slices) : slices_(slices.begin(), slices.end()) {
    for (RowSlice& slice : slices_) {
      blocks_.emplace_back(slice.block.begin(), slice.block.end());
      slice.block = blocks_.back();
    }
  }
  EditedSlices(const EditedSlices&) = delete;
  EditedSlices& operator=(const EditedSlices&) = delete;
  std::size_t size() const { return slices_.size(); }
  MutableByteSpan block(std::size_t i) { return blocks_[i]; }
  std::span<const RowSlice> view() const { return slices_; }

 private:
  std::vector<RowSlice> slices_;
  std::vector<std::vector<std::byte>> blocks_;
};

class ForgetsAWindowRow final : public Forwarding {
 public:
  ForgetsAWindowRow(std::unique_ptr<Runtime> sound, std::uint32_t first_tensor_bytes)
      : Forwarding(std::move(sound)), first_tensor_bytes_(first_tensor_bytes) {}
  Status Import(const ImportRequest& request) override {
    EditedSlices window(request.window);
    if (window.size() > 0) {
      const std::size_t at = std::size_t{window.view().front().first_row} * first_tensor_bytes_;
      const MutableByteSpan row = window.block(0).subspan(at, first_tensor_bytes_);
      std::fill(row.begin(), row.end(), std::byte{0});
    }
    ImportRequest changed = request;
    changed.window = window.view();
    return sound_->Import(changed);
  }

 private:
  const std::uint32_t first_tensor_bytes_;
};

class ImportsStaleSnapshots final : public Forwarding {
 public:
  using Forwarding::Forwarding;
  Status ExportSnapshot(SeqId lane, MutableByteSpan out) override {
    if (Status status = sound_->ExportSnapshot(lane, out); !status) return status;
    exported_.emplace_back(out.begin(), out.end());
    return {};
  }
  Status Import(const ImportRequest& request) override {
    // The one that was exported before; before the first, that of an empty sequence.
    std::vector<std::byte> stale(request.snapshot.size());
    for (const auto& snapshot : exported_) {
      if (std::equal(snapshot.begin(), snapshot.end(), request.snapshot.begin(),
                     request.snapshot.end()))
        break;
      stale = snapshot;
    }
    ImportRequest changed = request;
    changed.snapshot = stale;
    return sound_->Import(changed);
  }

 private:
  std::vector<std::vector<std::byte>> exported_;
};

class FailsToImport final : public Forwarding {
 public:
  using Forwarding::Forwarding;
  Status Import(const ImportRequest& request) override {
    sound_->Clear(request.lane);
    return Err(ErrorCode::kInternal, "this import fails");
  }
};

class ShiftsPositions final : public Forwarding {
 public:
  using Forwarding::Forwarding;
  Status ExportRows(SeqId lane, Component component, PosRange rows, MutableByteSpan out) override {
    const Pos held = component == Component::kWindow ? WindowHeldFrom(lane) : 0;
    if (rows.begin > held) rows = {rows.begin - 1, rows.end - 1};
    return sound_->ExportRows(lane, component, rows, out);
  }
};

class ExchangesTensors final : public Forwarding {
 public:
  ExchangesTensors(std::unique_ptr<Runtime> sound, const TensorLayout& layout, std::size_t a,
                   std::size_t b)
      : Forwarding(std::move(sound)), layout_(layout), a_(a), b_(b) {}
  Status ExportRows(SeqId lane, Component component, PosRange rows, MutableByteSpan out) override {
    if (Status status = sound_->ExportRows(lane, component, rows, out); !status) return status;
    if (component != Component::kKv) return {};
    const std::size_t bytes = std::min(layout_.row_bytes[a_], layout_.row_bytes[b_]);
    for (Pos row = 0; row < rows.size(); ++row) {
      const auto first = out.begin() + At(a_, row, rows.size());
      std::swap_ranges(first, first + static_cast<std::ptrdiff_t>(bytes),
                       out.begin() + At(b_, row, rows.size()));
    }
    return {};
  }

 private:
  std::ptrdiff_t At(std::size_t tensor, Pos row, Pos rows) const {
    std::size_t before = 0;
    for (std::size_t i = 0; i < tensor; ++i) before += layout_.row_bytes[i];
    return static_cast<std::ptrdiff_t>(before * rows + row * layout_.row_bytes[tensor]);
  }
  const TensorLayout layout_;
  const std::size_t a_;
  const std::size_t b_;
};

float FromHalf(std::uint16_t half) {
  const std::uint32_t exponent = (half >> 10U) & 31U;
  const std::uint32_t mantissa = half & 1023U;
  const float sign = (half & 0x8000U) != 0 ? -1.0F : 1.0F;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), static_cast<int>(exponent) - 25);
}

// Rounds towards zero; good enough to be wrong with.
std::uint16_t ToHalf(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  const int exponent = static_cast<int>((bits >> 23U) & 255U) - 127 + 15;
  if (exponent <= 0) return static_cast<std::uint16_t>(sign);
  if (exponent >= 31) return static_cast<std::uint16_t>(sign | 0x7BFFU);
  return static_cast<std::uint16_t>(sign | (static_cast<std::uint32_t>(exponent) << 10U) |
                                    ((bits >> 13U) & 1023U));
}

class TurnsKeys final : public Forwarding {
 public:
  TurnsKeys(std::unique_ptr<Runtime> sound, const TensorLayout& layout)
      : Forwarding(std::move(sound)), layout_(layout) {}
  Status ExportRows(SeqId lane, Component component, PosRange rows, MutableByteSpan out) override {
    if (Status status = sound_->ExportRows(lane, component, rows, out); !status) return status;
    if (component != Component::kKv) return {};
    std::size_t before = 0;
    for (std::size_t tensor = 0; tensor < layout_.row_bytes.size(); ++tensor) {
      const std::uint32_t bytes = layout_.row_bytes[tensor];
      const bool turned = std::find(layout_.rotated.begin(), layout_.rotated.end(), tensor) !=
                          layout_.rotated.end();
      for (Pos row = 0; turned && row < rows.size(); ++row)
        Turn(out.subspan(before * rows.size() + row * bytes, bytes), rows.begin + row);
      before += bytes;
    }
    return {};
  }

 private:
  static void Turn(MutableByteSpan row, Pos position) {
    constexpr float kWrongFrequency = 0.01F;
    const float angle = kWrongFrequency * static_cast<float>(position);
    std::vector<std::uint16_t> halves(row.size() / 2);
    std::memcpy(halves.data(), row.data(), halves.size() * 2);
    for (std::size_t i = 0; i + 1 < halves.size(); i += 2) {
      const float x = FromHalf(halves[i]);
      const float y = FromHalf(halves[i + 1]);
      halves[i] = ToHalf(x * std::cos(angle) - y * std::sin(angle));
      halves[i + 1] = ToHalf(x * std::sin(angle) + y * std::cos(angle));
    }
    std::memcpy(row.data(), halves.data(), halves.size() * 2);
  }
  const TensorLayout layout_;
};

class FlipsABit final : public Forwarding {
 public:
  using Forwarding::Forwarding;
  Status ExportRows(SeqId lane, Component component, PosRange rows, MutableByteSpan out) override {
    if (Status status = sound_->ExportRows(lane, component, rows, out); !status) return status;
    FlipMiddleBit(out);
    return {};
  }
  Status ExportSnapshot(SeqId lane, MutableByteSpan out) override {
    if (Status status = sound_->ExportSnapshot(lane, out); !status) return status;
    FlipMiddleBit(out);
    return {};
  }
};

// Does all that the sound runtime does in a second one, with other tokens or as it is built, and
// exports the rows of that.
class Shadowed final : public Forwarding {
 public:
  Shadowed(std::unique_ptr<Runtime> sound, std::unique_ptr<Runtime> shadow, bool other_text,
           bool first_page_only)
      : Forwarding(std::move(sound)),
        shadow_(std::move(shadow)),
        other_text_(other_text),
        first_page_only_(first_page_only) {}

  Status Decode(std::span<const DecodeItem> items) override {
    std::vector<std::vector<Token>> texts;
    std::vector<DecodeItem> changed(items.begin(), items.end());
    for (DecodeItem& item : changed) {
      auto& text = texts.emplace_back(item.tokens.begin(), item.tokens.end());
      const auto vocab = static_cast<Token>(info().vocab);
      for (Token& token : text) token = other_text_ ? (token + 1) % vocab : token;
      item.tokens = text;
    }
    if (Status status = shadow_->Decode(changed); !status) return status;
    return sound_->Decode(items);
  }
  bool Truncate(SeqId lane, Pos end) override {
    return shadow_->Truncate(lane, end) && sound_->Truncate(lane, end);
  }
  void Clear(SeqId lane) override {
    shadow_->Clear(lane);
    sound_->Clear(lane);
  }
  Status Copy(SeqId from, SeqId to) override {
    if (Status status = shadow_->Copy(from, to); !status) return status;
    return sound_->Copy(from, to);
  }
  Status Import(const ImportRequest& request) override {
    if (Status status = shadow_->Import(request); !status) return status;
    return sound_->Import(request);
  }
  Status ExportRows(SeqId lane, Component component, PosRange rows, MutableByteSpan out) override {
    const bool wrong = !first_page_only_ || rows.begin == 0;
    return (wrong ? shadow_ : sound_)->ExportRows(lane, component, rows, out);
  }

 private:
  std::unique_ptr<Runtime> shadow_;
  const bool other_text_;
  const bool first_page_only_;
};

// After a cut, what is left goes out and in again with a bit flipped.
class DamagesWhatItCuts final : public Forwarding {
 public:
  using Forwarding::Forwarding;
  Status Decode(std::span<const DecodeItem> items) override {
    for (const DecodeItem& item : items) {
      auto& text = texts_[item.lane];
      text.resize(item.pos);
      text.insert(text.end(), item.tokens.begin(), item.tokens.end());
    }
    return sound_->Decode(items);
  }
  Status Import(const ImportRequest& request) override {
    texts_[request.lane].assign(request.tokens.begin(), request.tokens.end());
    return sound_->Import(request);
  }
  bool Truncate(SeqId lane, Pos end) override {
    if (!sound_->Truncate(lane, end)) return false;
    if (end == 0) return true;
    const MemoryShape& shape = info().shape;
    std::vector<std::byte> kv(end * shape.kv_row_bytes);
    std::vector<std::byte> window((end - shape.WindowBegin(end)) * shape.window_row_bytes);
    if (!kv.empty() && !sound_->ExportRows(lane, Component::kKv, {0, end}, kv)) return false;
    const PosRange rows{shape.WindowBegin(end), end};
    if (!window.empty() && !sound_->ExportRows(lane, Component::kWindow, rows, window))
      return false;
    FlipMiddleBit(kv.empty() ? window : kv);
    std::vector<RowSlice> kv_slices;
    std::vector<RowSlice> window_slices;
    if (!kv.empty()) kv_slices.push_back({kv, end, 0, {0, end}});
    if (!window.empty()) window_slices.push_back({window, rows.size(), 0, rows});
    return sound_
        ->Import({lane, end, TokenSpan(texts_[lane]).first(end), kv_slices, window_slices, {}})
        .has_value();
  }

 private:
  std::map<SeqId, std::vector<Token>> texts_;
};

}  // namespace

std::string_view MutationName(Mutation mutation) {
  switch (mutation) {
    case Mutation::kNone: return "None";
    case Mutation::kForgottenWindowRow: return "ForgottenWindowRow";
    case Mutation::kStaleSnapshot: return "StaleSnapshot";
    case Mutation::kOffByOnePosition: return "OffByOnePosition";
    case Mutation::kSwappedLayers: return "SwappedLayers";
    case Mutation::kKAndVExchanged: return "KAndVExchanged";
    case Mutation::kWrongRope: return "WrongRope";
    case Mutation::kFlippedBit: return "FlippedBit";
    case Mutation::kOtherModelsPage: return "OtherModelsPage";
    case Mutation::kImportFails: return "ImportFails";
    case Mutation::kCutLeavesDamage: return "CutLeavesDamage";
  }
  return "Unknown";
}

std::unique_ptr<Runtime> Mutate(std::unique_ptr<Runtime> sound, Mutation mutation,
                                const TensorLayout& layout, const RuntimeFactory& shadow) {
  switch (mutation) {
    case Mutation::kNone: return sound;
    case Mutation::kForgottenWindowRow:
      return std::make_unique<ForgetsAWindowRow>(std::move(sound), layout.window_first);
    case Mutation::kStaleSnapshot: return std::make_unique<ImportsStaleSnapshots>(std::move(sound));
    case Mutation::kOffByOnePosition: return std::make_unique<ShiftsPositions>(std::move(sound));
    case Mutation::kSwappedLayers:
      return std::make_unique<ExchangesTensors>(std::move(sound), layout, layout.layer_a,
                                                layout.layer_b);
    case Mutation::kKAndVExchanged:
      return std::make_unique<ExchangesTensors>(std::move(sound), layout, layout.key, layout.value);
    case Mutation::kWrongRope:
      if (!layout.rotated.empty()) return std::make_unique<TurnsKeys>(std::move(sound), layout);
      return std::make_unique<Shadowed>(std::move(sound), shadow(), false, false);
    case Mutation::kFlippedBit: return std::make_unique<FlipsABit>(std::move(sound));
    case Mutation::kOtherModelsPage:
      return std::make_unique<Shadowed>(std::move(sound), shadow(), true, true);
    case Mutation::kImportFails: return std::make_unique<FailsToImport>(std::move(sound));
    case Mutation::kCutLeavesDamage: return std::make_unique<DamagesWhatItCuts>(std::move(sound));
  }
  return sound;
}

}  // namespace skippy::certify_test
