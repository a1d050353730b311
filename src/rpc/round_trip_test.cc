// A stage behind a server answers every call as the same stage does in this process.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "pipeline/piece.h"
#include "pipeline/wire.h"
#include "rpc/rpc_testing.h"

namespace skippy::rpc {
namespace {

using pipeline::PieceKey;
using pipeline::StageLink;
using pipeline::WireFormat;

// What a wire does to rows.
std::vector<float> Through(WireFormat wire, const std::vector<float>& rows, std::uint32_t width) {
  const auto bytes = pipeline::Encode(wire, rows, width);
  EXPECT_TRUE(bytes);
  const auto back = pipeline::Decode(wire, *bytes, width);
  EXPECT_TRUE(back);
  return *back;
}

// Calls a link and writes down all that it says.
class Script {
 public:
  // `loss`: what this side does to rows itself, where the link does not.
  Script(StageLink& link, WireFormat loss) : link_(link), loss_(loss) {}

  std::vector<std::string> Play() {
    const auto attached = link_.Attach();
    Say("attach", attached, [](const pipeline::StageDescription& d) {
      return fmt::format("{} {} {} lanes, {} in, {} out", d.package.model_name,
                         ToString(d.package.layers), d.info.lanes, d.input_width, d.output_width);
    });
    if (!attached) return said_;
    width_ = attached->input_width;
    output_width_ = attached->output_width;
    const MemoryShape shape = attached->info.shape;

    Decode({{kLaneA, 0, 16}});
    Decode({{kLaneA, 16, 16}});
    Decode({{kLaneB, 0, 5}});
    Decode({{kLaneA, 32, 1}, {kLaneB, 5, 1}});
    std::vector<PieceKey> pieces;
    const auto keep = [&](Component component, PosRange positions) {
      PieceKey piece{pipeline::PieceName({}, std::vector<Token>(positions.end, 3)), component,
                     positions};
      Say("keep", link_.Keep(kLaneA, piece));
      pieces.push_back(piece);
    };
    keep(Component::kKv, {0, 32});
    keep(Component::kKv, {32, 33});
    keep(Component::kWindow, {9, 33});
    keep(Component::kSnapshot, {33, 33});
    pieces.push_back({Digest{}, Component::kKv, {0, 32}});
    Say("held", link_.Held(pieces), [](const std::vector<bool>& held) {
      std::string text;
      for (const bool one : held) text += one ? '1' : '0';
      return text;
    });
    Say("held", link_.Held({}),
        [](const std::vector<bool>& held) { return std::to_string(held.size()); });
    const auto names = [](const std::vector<PieceKey>& found) {
      std::string text;
      for (const PieceKey& piece : found)
        text +=
            fmt::format(" {} {} {}..{}", piece.name.ShortHex(), static_cast<int>(piece.component),
                        piece.positions.begin, piece.positions.end);
      return text;
    };
    Say("find", link_.Find(std::vector<Digest>{pieces[1].name, pieces[4].name, pieces[0].name}),
        names);
    Say("find", link_.Find({}), names);
    Place("truncate", link_.Truncate(kLaneA, 30));
    Say("clear", link_.Clear(kLaneA));
    Place("copy", link_.Copy(kLaneB, kLaneA));
    Say("clear", link_.Clear(kLaneA));

    pipeline::StageRestore restore;
    restore.lane = kLaneA;
    restore.end = 33;
    if (shape.HasKv())
      restore.kv = {{pieces[0], {0, 16}}, {pieces[0], {16, 32}}, {pieces[1], {32, 33}}};
    if (shape.HasWindow()) restore.window = {{pieces[2], {9, 33}}};
    if (shape.HasSnapshot()) restore.snapshot = pieces[3];
    Place("restore", link_.Restore(restore));
    Decode({{kLaneA, 33, 3}}, false);
    Decode({{kLaneA, 36, 1}});

    pipeline::StageRestore lost = restore;
    lost.kv = {{pieces[4], {0, 32}}};
    Place("restore what is not there", link_.Restore(lost));
    Decode({{kLaneA, 0, 2}});
    Decode({{kLaneA, 7, 2}});
    Say("forget", link_.Forget());
    Say("find", link_.Find(std::vector<Digest>{pieces[0].name}), names);
    Say("clear", link_.Clear(SeqId{2}));
    Place("copy", link_.Copy(kLaneB, SeqId{99}));
    return said_;
  }

 private:
  struct Step {
    SeqId lane;
    Pos pos;
    std::uint32_t rows;
  };

  template <class T, class Text>
  void Say(std::string_view call, const Result<T>& result, Text text) {
    if (result) return said_.push_back(fmt::format("{}: {}", call, text(*result)));
    std::string message = result.error().message;
    if (const std::string named = link_.address() + ": "; message.starts_with(named))
      message = message.substr(named.size());
    said_.push_back(fmt::format("{}: {}: {}", call, ErrorCodeName(result.error().code), message));
  }
  void Say(std::string_view call, const Status& status) {
    Say(call, status ? Result<int>(0) : Result<int>(tl::unexpected(status.error())),
        [](int) { return "done"; });
  }
  void Place(std::string_view call, const Result<pipeline::LanePlace>& place) {
    Say(call, place, [](const pipeline::LanePlace& at) {
      return fmt::format("{} window {}", at.end, at.window_from);
    });
  }
  void Decode(const std::vector<Step>& steps, bool want_logits = true) {
    std::vector<std::vector<float>> rows;
    std::vector<runtime::RowsItem> items;
    for (const Step& step : steps)
      rows.push_back(Through(loss_, Rows(step.rows, width_, ++seed_), width_));
    for (std::size_t i = 0; i < steps.size(); ++i)
      items.push_back({steps[i].lane, steps[i].pos, rows[i], want_logits});
    Say("decode", link_.Decode(items), [&](const pipeline::StageOutput& output) {
      const std::vector<float> out =
          output.rows.empty() ? output.rows : Through(loss_, output.rows, output_width_);
      std::string text =
          fmt::format("{} rows {}", out.size(), Blake3(std::as_bytes(std::span(out))).ShortHex());
      for (const auto& logits : output.logits)
        text += fmt::format(" {} logits {}", logits.size(),
                            Blake3(std::as_bytes(std::span(logits))).ShortHex());
      for (const pipeline::LanePlace& at : output.lanes)
        text += fmt::format(" at {} window {}", at.end, at.window_from);
      return text;
    });
  }

  StageLink& link_;
  const WireFormat loss_;
  std::uint32_t width_ = 0;
  std::uint32_t output_width_ = 0;
  std::uint32_t seed_ = 0;
  std::vector<std::string> said_;
};

std::vector<std::string> PlayHere(const FakeStageOptions& options, WireFormat wire) {
  Stage stage(options);
  pipeline::LocalLink link(stage.host);
  return Script(link, wire).Play();
}

std::vector<std::string> PlayThere(const FakeStageOptions& options, WireFormat wire) {
  Stage stage(options);
  Serving serving({&stage.host});
  Links links = MustConnect(serving.address, {.wire = wire});
  EXPECT_EQ(links.size(), 1U);
  if (links.empty()) return {};
  // A wire of f32 is no loss on either side; with another one the link brings it.
  return Script(*links.front(), WireFormat::kF32).Play();
}

std::size_t Errors(const std::vector<std::string>& said) {
  std::size_t errors = 0;
  for (const std::string& line : said)
    for (const char* code : {"not_found", "invalid_argument", "unsupported"})
      errors += line.find(code) != std::string::npos ? 1U : 0U;
  return errors;
}

TEST(RoundTrip, EveryCallAnswersAsInThisProcess) {
  using enum ShapeKind;
  const std::vector<ShapeKind> recurrent = {kRecurrent, kHybridWindow, kRecurrent};
  for (const FakeStageOptions& options :
       {Layers(kModel, 0, 2), Layers(kModel, 2, 4), Layers(kModel, 0, 4), Layers(recurrent, 0, 2),
        Layers(recurrent, 1, 3), Layers(recurrent, 2, 3)}) {
    const std::vector<std::string> here = PlayHere(options, WireFormat::kF32);
    EXPECT_GE(here.size(), 20U);
    // The script meets errors of several kinds, and they cross too.
    EXPECT_GE(Errors(here), 4U);
    EXPECT_LT(Errors(here), 12U) << testing::PrintToString(here);
    EXPECT_EQ(PlayThere(options, WireFormat::kF32), here);
  }
}

TEST(RoundTrip, WiresLoseOnBothWaysWhatTheySay) {
  for (const auto& [begin, end] : {std::pair{0U, 2U}, std::pair{2U, 4U}}) {
    const FakeStageOptions options = Layers(kModel, begin, end);
    const std::vector<std::string> exact = PlayHere(options, WireFormat::kF32);
    for (const WireFormat wire : {WireFormat::kBf16, WireFormat::kF16, WireFormat::kInt8}) {
      const std::vector<std::string> here = PlayHere(options, wire);
      EXPECT_NE(here, exact);
      EXPECT_EQ(PlayThere(options, wire), here) << WireName(wire);
    }
  }
}

TEST(RoundTrip, TheDescriptionIsTheHosts) {
  Stage stage(Layers(kModel, 1, 3));
  Serving serving({&stage.host});
  Links links = MustConnect(serving.address);
  ASSERT_EQ(links.size(), 1U);
  EXPECT_EQ(links.front()->address(), serving.address + "/1..3");
  const auto there = links.front()->Attach();
  ASSERT_TRUE(there);
  EXPECT_EQ(there->package, stage.host.package());
  EXPECT_EQ(there->info.identity, stage.host.info().identity);
  EXPECT_EQ(there->info.shape, stage.host.info().shape);
  EXPECT_EQ(there->info.context, stage.host.info().context);
  EXPECT_NE(there->session, 0U);
}

TEST(RoundTrip, AServerServesSeveralStages) {
  Stage first(Layers(kModel, 0, 2));
  Stage second(Layers(kModel, 2, 4));
  Serving serving({&first.host, &second.host});
  Links both = MustConnect(serving.address);
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0]->address(), serving.address + "/0..2");
  EXPECT_EQ(both[1]->address(), serving.address + "/2..4");

  Stage whole(Layers(kModel, 0, 4));
  pipeline::LocalLink here(whole.host);
  ASSERT_TRUE(here.Attach());
  for (const auto& link : both) ASSERT_TRUE(link->Attach());
  const std::vector<float> rows = Rows(7, whole.runtime.input_width());
  const auto expected = here.Decode(std::vector<runtime::RowsItem>{{kLaneA, 0, rows, true}});
  ASSERT_TRUE(expected);
  const auto between = both[0]->Decode(std::vector<runtime::RowsItem>{{kLaneA, 0, rows, false}});
  ASSERT_TRUE(between) << between.error().message;
  const auto out =
      both[1]->Decode(std::vector<runtime::RowsItem>{{kLaneA, 0, between->rows, true}});
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(out->logits, expected->logits);

  const Links one = MustConnect(serving.address + "/2..4");
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one.front()->address(), serving.address + "/2..4");
  EXPECT_TRUE(IsError(Connect(serving.address + "/1..4", {}), ErrorCode::kNotFound,
                      {serving.address, "0..2, 2..4"}));
}

// gRPC's own limit is 4 MiB.
TEST(RoundTrip, AChunkLargerThanUsualMessagesPasses) {
  FakeStageOptions options = Layers(kModel, 0, 2);
  options.width = 4096;
  options.chunk = 640;
  options.context = 2048;
  Stage stage(options);
  Serving serving({&stage.host});
  const auto link = MustAttach(serving.address);
  ASSERT_TRUE(link);
  const std::vector<float> rows = Rows(options.chunk, options.width);
  const auto output = link->Decode(std::vector<runtime::RowsItem>{{kLaneA, 0, rows, false}});
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_EQ(output->rows.size(), rows.size());

  const std::vector<float> too_many = Rows(options.chunk + 100U, options.width);
  EXPECT_TRUE(IsError(link->Decode(std::vector<runtime::RowsItem>{{kLaneA, 640, too_many, false}}),
                      ErrorCode::kResourceExhausted, {serving.address, "larger than max"}));
}

TEST(RoundTrip, RowsThatTheWireCannotCarryAreRefused) {
  Stage stage(Layers(kModel, 0, 2));
  Serving serving({&stage.host});
  const auto link = MustAttach(serving.address, {.wire = WireFormat::kF16});
  ASSERT_TRUE(link);
  std::vector<float> rows = Rows(1, stage.runtime.input_width());
  rows[3] = 1e30F;
  EXPECT_TRUE(IsError(link->Decode(std::vector<runtime::RowsItem>{{kLaneA, 0, rows, false}}),
                      ErrorCode::kUnsupported, {link->address(), "bf16"}));
  rows.pop_back();
  EXPECT_TRUE(IsError(link->Decode(std::vector<runtime::RowsItem>{{kLaneA, 0, rows, false}}),
                      ErrorCode::kInvalidArgument, {link->address(), "11 values"}));
}

}  // namespace
}  // namespace skippy::rpc
