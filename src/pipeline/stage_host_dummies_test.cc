// Layers in a stage's file that are not the model's (docs/stages.md).
#include <gtest/gtest.h>

#include "pipeline/stage_host.h"
#include "pipeline/stage_host_testing.h"

namespace skippy::pipeline {
namespace {

using enum runtime::fake::ShapeKind;
using runtime::StatePart;

// A stage whose file has layers that are not the model's, in front and behind (docs/stages.md): a
// stage with more state in its exports, of whatever content.
class PaddedStage final : public runtime::Runtime, public runtime::StageAccess {
 public:
  struct Bytes {
    std::uint64_t kv = 0;
    std::uint64_t window = 0;
    std::uint64_t snapshot = 0;
  };
  PaddedStage(const FakeStageOptions& options, Bytes front, Bytes behind)
      : inner_(options),
        info_(inner_.info()),
        front_(front),
        behind_(behind),
        front_layers_(front.kv + front.window + front.snapshot > 0 ? 1 : 0),
        layers_(options.end - options.begin) {
    info_.shape.kv_row_bytes += front.kv + behind.kv;
    info_.shape.window_row_bytes += front.window + behind.window;
    info_.shape.snapshot_bytes += front.snapshot + behind.snapshot;
    if (info_.shape.HasWindow()) info_.shape.window_tokens = options.window_tokens;
  }
  std::string complaint;
  Pos rows_imported = 0;  // of KV, dummies' included

  const runtime::RuntimeInfo& info() const override { return info_; }
  Status Decode(std::span<const runtime::DecodeItem> items) override {
    return inner_.Decode(items);
  }
  std::span<const float> Logits(std::size_t item) override { return inner_.Logits(item); }
  Pos End(SeqId lane) const override { return inner_.End(lane); }
  Pos WindowHeldFrom(SeqId lane) const override { return inner_.WindowHeldFrom(lane); }
  bool Truncate(SeqId lane, Pos end) override { return inner_.Truncate(lane, end); }
  void Clear(SeqId lane) override { inner_.Clear(lane); }
  Status Copy(SeqId from, SeqId to) override { return inner_.Copy(from, to); }
  Result<std::vector<AdapterIdentity>> ResolveAdapters(
      std::span<const std::pair<std::uint32_t, float>> adapters) const override {
    return inner_.ResolveAdapters(adapters);
  }
  Status UseAdapters(std::span<const std::pair<std::uint32_t, float>> adapters) override {
    return inner_.UseAdapters(adapters);
  }
  std::uint32_t input_width() const override { return inner_.input_width(); }
  std::uint32_t output_width() const override { return inner_.output_width(); }
  Status DecodeRows(std::span<const RowsItem> items) override { return inner_.DecodeRows(items); }
  std::span<const float> OutputRows(std::size_t item) const override {
    return inner_.OutputRows(item);
  }

  std::vector<StatePart> Parts(Component component) const override {
    std::vector<StatePart> parts;
    if (Of(front_, component) > 0) parts.push_back({0, Of(front_, component)});
    for (StatePart part : inner_.Parts(component)) {
      part.layer += front_layers_;
      parts.push_back(part);
    }
    if (Of(behind_, component) > 0)
      parts.push_back({front_layers_ + layers_, Of(behind_, component)});
    return parts;
  }

  Status ExportRows(SeqId lane, Component component, PosRange positions,
                    MutableByteSpan out) override {
    std::vector<std::byte> own(positions.size() * InnerBytes(component));
    if (!own.empty()) SKIPPY_RETURN_IF_ERROR(inner_.ExportRows(lane, component, positions, own));
    return Pad(component, positions.size(), own, out);
  }
  Status ExportSnapshot(SeqId lane, MutableByteSpan out) override {
    std::vector<std::byte> own(InnerBytes(Component::kSnapshot));
    if (!own.empty()) SKIPPY_RETURN_IF_ERROR(inner_.ExportSnapshot(lane, own));
    return Pad(Component::kSnapshot, 1, own, out);
  }
  Status Import(const runtime::ImportRequest& request) override {
    for (const RowSlice& slice : request.kv) rows_imported += slice.positions.size();
    std::vector<RowSlice> kv = Strip(Component::kKv, request.kv);
    std::vector<RowSlice> window = Strip(Component::kWindow, request.window);
    if (InnerBytes(Component::kKv) == 0) kv.clear();
    if (InnerBytes(Component::kWindow) == 0) window.clear();
    ByteSpan snapshot = request.snapshot;
    if (!snapshot.empty()) snapshot = Middle(Component::kSnapshot, 1, snapshot);
    return inner_.Import({request.lane, request.end, request.tokens, kv, window, snapshot});
  }

 private:
  static std::uint64_t Of(const Bytes& bytes, Component component) {
    if (component == Component::kKv) return bytes.kv;
    if (component == Component::kWindow) return bytes.window;
    return component == Component::kSnapshot ? bytes.snapshot : 0;
  }
  std::uint64_t InnerBytes(Component component) const {
    const MemoryShape& shape = inner_.info().shape;
    if (component == Component::kKv) return shape.kv_row_bytes;
    return component == Component::kWindow ? shape.window_row_bytes : shape.snapshot_bytes;
  }
  Status Pad(Component component, std::size_t rows, ByteSpan own, MutableByteSpan out) {
    const std::size_t front = rows * Of(front_, component);
    if (out.size() != front + own.size() + rows * Of(behind_, component))
      return Err(ErrorCode::kInvalidArgument, "export buffer of the wrong size");
    // What dummies hold is nobody's.
    for (std::byte& byte : out) byte = static_cast<std::byte>(++garbage_);
    std::copy(own.begin(), own.end(), out.begin() + static_cast<std::ptrdiff_t>(front));
    return {};
  }
  // The model's own part of a block; that of the dummies must be zeros.
  ByteSpan Middle(Component component, std::size_t rows, ByteSpan block) {
    const std::size_t front = rows * Of(front_, component);
    const std::size_t own = rows * InnerBytes(component);
    if (block.size() != front + own + rows * Of(behind_, component)) {
      complaint = "a block of the wrong size";
      return {};
    }
    for (std::size_t i = 0; i < block.size(); ++i)
      if ((i < front || i >= front + own) && block[i] != std::byte{0})
        complaint = "a dummy's state is not zeros";
    return block.subspan(front, own);
  }
  std::vector<RowSlice> Strip(Component component, std::span<const RowSlice> slices) {
    std::vector<RowSlice> stripped;
    for (RowSlice slice : slices) {
      slice.block = Middle(component, slice.block_rows, slice.block);
      stripped.push_back(slice);
    }
    return stripped;
  }

  FakeStage inner_;
  runtime::RuntimeInfo info_;
  const Bytes front_;
  const Bytes behind_;
  const std::uint32_t front_layers_;
  const std::uint32_t layers_;
  std::uint8_t garbage_ = 0;
};

class StageHostDummies : public testing::TestWithParam<NamedModel> {};
INSTANTIATE_TEST_SUITE_P(Models, StageHostDummies, testing::ValuesIn(runtime::fake::FakeModels()),
                         [](const auto& model) { return model.param.name; });

TEST_P(StageHostDummies, DummiesAreNeitherKeptNorBroughtBack) {
  const std::vector<Token> tokens = SomeTokens(61);
  FakeStageOptions options = Options(GetParam().layers);
  options.begin = 1;  // layers [1, 3) of the model, with one more in front and one behind
  options.end = 3;
  const PaddedStage::Bytes front{10, 6, 9};
  const PaddedStage::Bytes behind{4, 12, 8};
  PieceStore store(1 << 24);
  StagePackage package = PackageOf(options);
  package.dummies_in_front = 1;
  const auto make = [&](const auto& use) {
    PaddedStage stage(options, front, behind);
    StageHost host(package, stage, store);
    Session session(host);
    use(session);
    EXPECT_EQ(stage.complaint, "");
  };
  const std::vector<float> rows = RowsOf(options, tokens);
  std::vector<float> expected;
  const std::vector<float> next = RowsOf(options, std::vector<Token>{3});
  make([&](Session& session) {
    session.Evaluate(kLaneA, 0, rows);
    session.KeepAll(kLaneA, tokens);
    expected = session.Evaluate(kLaneA, 61, next);
  });
  make([&](Session& session) {
    const auto place = session.link.Restore(RestoreOf(kLaneB, session.shape(), tokens));
    ASSERT_TRUE(place) << place.error().message;
    EXPECT_EQ(session.Evaluate(kLaneB, 61, next), expected);
  });
  // A stage of the same layers without dummies finds its own.
  FakeStage plain(options);
  StageHost host(PackageOf(options), plain, store);
  Session session(host);
  const auto place = session.link.Restore(RestoreOf(kLaneA, session.shape(), tokens));
  ASSERT_TRUE(place) << place.error().message;
  EXPECT_EQ(session.Evaluate(kLaneA, 61, next), expected);
}

TEST(StageHostDummy, StateOfDummiesAloneIsNotTheModels) {
  // A range without attention, in a model of both kinds: the KV that the stage has is a dummy's.
  FakeStageOptions options = Options({kAttention, kRecurrent, kRecurrent});
  options.begin = 1;
  PieceStore store(1 << 20);
  PaddedStage stage(options, {}, {10, 0, 0});
  StageHost host(PackageOf(options), stage, store);
  Session session(host);
  EXPECT_FALSE(session.shape().HasKv());
  const std::vector<Token> tokens = SomeTokens(20);
  session.Evaluate(kLaneA, 0, RowsOf(options, tokens));
  session.KeepAll(kLaneA, tokens);
  EXPECT_FALSE(session.link.Keep(kLaneA, {NameOf(tokens), Component::kKv, {0, 20}}));
  EXPECT_EQ(store.pieces(), 1U);
  const auto place = session.link.Restore(RestoreOf(kLaneB, session.shape(), tokens));
  ASSERT_TRUE(place) << place.error().message;
  EXPECT_EQ(stage.complaint, "");
  EXPECT_EQ(stage.rows_imported, 20U);  // the runtime got what its memory has
}

}  // namespace
}  // namespace skippy::pipeline
