// Stages that fail, lie, lose what they keep, are restarted or taken over, at any call: logits are
// right or not there, End tells broken lanes, and the next try gets on.
#include <gtest/gtest.h>

#include "pipeline/pipeline_testing.h"

namespace skippy::pipeline {
namespace {

using enum runtime::fake::ShapeKind;
using runtime::DecodeItem;
using runtime::fake::SavedBoundary;

constexpr Pos kPage = 8;

// Uses the port as an engine does: trusts End, clears lanes after failures, asks for what is
// missing before it imports. Every logit that it is given is compared with the whole model's.
class Client {
 public:
  // `tries`: of one thing, until the next one counts as hanging.
  Client(PipelineRuntime& runtime, WholeModel& whole, int tries)
      : runtime_(runtime), whole_(whole), tries_(tries) {}

  // Evaluates the text in the lane, from where the lane is with it.
  void Go(SeqId lane, TokenSpan text) {
    for (int tries = 0; tries < tries_;) {
      Trust(lane);
      std::vector<Token>& held = held_[lane];
      if (held.size() > text.size() || !std::equal(held.begin(), held.end(), text.begin()))
        Clear(lane);
      if (held.size() == text.size()) return;
      const Pos chunk = runtime_.info().chunk;
      const auto begin = static_cast<Pos>(held.size());
      const Pos end = std::min<Pos>(static_cast<Pos>(text.size()), (begin / chunk + 1) * chunk);
      if (!Decode({{lane, begin, text.subspan(begin, end - begin), true}})) ++tries;
    }
    ADD_FAILURE() << "it does not get on";
  }

  // One token in both lanes, in one pass, where both are there.
  void Step(Token token) {
    for (const SeqId lane : {kLaneA, kLaneB}) Trust(lane);
    if (held_[kLaneA].empty() || held_[kLaneB].empty()) return;
    const std::vector<Token> tokens = {token};
    std::ignore = Decode({{kLaneA, static_cast<Pos>(held_[kLaneA].size()), tokens, true},
                          {kLaneB, static_cast<Pos>(held_[kLaneB].size()), tokens, true}});
  }

  void Clear(SeqId lane) {
    runtime_.Clear(lane);
    EXPECT_EQ(runtime_.End(lane), 0U);
    held_[lane].clear();
  }

  void Truncate(SeqId lane, Pos end) {
    Trust(lane);
    const auto before = static_cast<Pos>(held_[lane].size());
    const bool cut = runtime_.Truncate(lane, std::min(end, before));
    const Pos now = runtime_.End(lane);
    EXPECT_TRUE(cut ? now == std::min(end, before) : now == before || now == 0)
        << "cut to " << end << " of " << before << ": " << cut << ", ends at " << now;
    if (cut) held_[lane].resize(now);
    Trust(lane);
  }

  void Copy(SeqId from, SeqId to) {
    Clear(to);
    Trust(from);
    if (runtime_.Copy(from, to)) {
      held_[to] = held_[from];
      EXPECT_EQ(runtime_.End(to), held_[to].size());
    } else {
      EXPECT_EQ(runtime_.End(to), 0U);
    }
  }

  // Remembers the lane's content as a cache does: all of it or nothing.
  void Save(SeqId lane) {
    Trust(lane);
    const std::vector<Token>& text = held_[lane];
    if (text.empty()) return;
    const MemoryShape& shape = runtime_.info().shape;
    SavedBoundary saved;
    saved.end = static_cast<Pos>(text.size());
    saved.tokens = text;
    const auto rows = [&](Component component, Pos from, std::uint64_t bytes, auto& pages) {
      for (Pos begin = from; begin < saved.end;) {
        const Pos end = std::min(saved.end, (begin / kPage + 1) * kPage);
        pages.push_back({{begin, end}, std::vector<std::byte>((end - begin) * bytes)});
        if (!runtime_.ExportRows(lane, component, {begin, end}, pages.back().bytes)) return false;
        begin = end;
      }
      return true;
    };
    if (shape.HasKv() && !rows(Component::kKv, 0, shape.kv_row_bytes, saved.kv)) return;
    if (shape.HasWindow() && !rows(Component::kWindow, shape.WindowBegin(saved.end),
                                   shape.window_row_bytes, saved.window))
      return;
    saved.snapshot.resize(shape.snapshot_bytes);
    if (shape.HasSnapshot() && !runtime_.ExportSnapshot(lane, saved.snapshot)) return;
    saves_.push_back(std::move(saved));
    ++saved_count;
  }

  // Restores what was saved last of a text into the lane and goes on from there.
  void Restore(SeqId lane, std::size_t which, bool ask) {
    if (saves_.empty()) return;
    const SavedBoundary saved = saves_[which % saves_.size()];
    const auto kv = runtime::fake::Slices(saved.kv);
    const auto window = runtime::fake::Slices(saved.window);
    const runtime::ImportRequest request{lane, saved.end, saved.tokens, kv, window, saved.snapshot};
    if (ask) {
      const auto missing = runtime_.FindMissing(request);
      if (!missing) return;
      if (missing->any()) {
        ++missing_count;
        saves_.erase(saves_.begin() + static_cast<std::ptrdiff_t>(which % saves_.size()));
        return;
      }
    }
    held_[lane].clear();
    if (!runtime_.Import(request)) {
      EXPECT_EQ(runtime_.End(lane), 0U);
      return;
    }
    EXPECT_EQ(runtime_.End(lane), saved.end);
    held_[lane] = saved.tokens;
    ++restored_count;
  }

  std::uint64_t saved_count = 0;
  std::uint64_t restored_count = 0;
  std::uint64_t missing_count = 0;
  std::uint64_t failed_count = 0;

 private:
  // A lane is what it was, or broken.
  void Trust(SeqId lane) {
    const Pos end = runtime_.End(lane);
    if (end == held_[lane].size()) return;
    EXPECT_EQ(end, 0U) << "of " << held_[lane].size();
    Clear(lane);
  }

  bool Decode(const std::vector<DecodeItem>& items) {
    const Status status = runtime_.Decode(items);
    if (!status) {
      ++failed_count;
      EXPECT_TRUE(runtime_.Logits(0).empty());
      EXPECT_FALSE(status.error().message.empty());
      for (const DecodeItem& item : items) {
        const Pos end = runtime_.End(item.lane);
        EXPECT_TRUE(end == 0 || end == item.pos) << end << " after a failure at " << item.pos;
        Clear(item.lane);
      }
      return false;
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      std::vector<Token>& held = held_[items[i].lane];
      held.insert(held.end(), items[i].tokens.begin(), items[i].tokens.end());
      EXPECT_EQ(runtime_.End(items[i].lane), held.size());
      const auto logits = runtime_.Logits(i);
      EXPECT_EQ(std::vector<float>(logits.begin(), logits.end()), whole_.Logits(held));
    }
    return true;
  }

  PipelineRuntime& runtime_;
  WholeModel& whole_;
  const int tries_;
  std::map<SeqId, std::vector<Token>> held_;
  std::vector<SavedBoundary> saves_;
};

// Everything that a link can be asked, most of it twice.
void Script(Client& client) {
  const std::vector<Token> base = SomeTokens(37);
  const std::vector<Token> longer = Join(base, SomeTokens(12, 2));
  const std::vector<Token> other = Join(base, SomeTokens(9, 3));
  client.Go(kLaneA, base);
  client.Save(kLaneA);
  client.Go(kLaneB, SomeTokens(5, 4));
  client.Step(1);
  client.Step(2);
  client.Restore(kLaneB, 0, true);
  client.Go(kLaneB, longer);
  client.Save(kLaneB);
  client.Step(3);
  client.Truncate(kLaneB, 45);
  client.Go(kLaneB, longer);
  client.Copy(kLaneA, kLaneB);
  client.Step(4);
  client.Clear(kLaneA);
  client.Restore(kLaneA, 1, false);
  client.Step(5);
  client.Go(kLaneA, other);
  client.Restore(kLaneB, 0, true);
  client.Go(kLaneB, other);
  client.Restore(kLaneA, 1, true);
  client.Go(kLaneA, longer);
}

struct FaultCase {
  std::string name;
  std::vector<ShapeKind> model;
  std::uint64_t activation_bytes = 0;
};

void PrintTo(const FaultCase& one, std::ostream* out) { *out << one.name; }

class PipelineFaults : public testing::TestWithParam<FaultCase> {
 protected:
  Pipeline::Setup Stages() const {
    return ThreeStages(GetParam().model, GetParam().activation_bytes);
  }
};
INSTANTIATE_TEST_SUITE_P(
    Models, PipelineFaults,
    testing::Values(
        FaultCase{"dense", {kAttention, kMla, kAttention, kMla}},
        FaultCase{"dense_with_activations", {kAttention, kMla, kAttention, kMla}, kActivations},
        FaultCase{"windows", {kWindow, kWindowOnly, kAttention, kWindowOnly}},
        FaultCase{"windows_with_activations",
                  {kWindow, kWindowOnly, kAttention, kWindowOnly},
                  kActivations},
        FaultCase{"hybrid", {kRecurrent, kAttention, kRecurrent, kHybridWindow}},
        FaultCase{"hybrid_with_activations",
                  {kRecurrent, kAttention, kRecurrent, kHybridWindow},
                  kActivations}),
    [](const auto& one) { return one.param.name; });

TEST_P(PipelineFaults, WithoutFaultsTheScriptReachesEverything) {
  WholeModel whole(Stages().options);
  Pipeline pipeline(Stages());
  Client client(*pipeline.runtime, whole, 1);
  Script(client);
  EXPECT_EQ(client.failed_count, 0U);
  EXPECT_EQ(client.saved_count, 2U);
  EXPECT_EQ(client.restored_count, 4U);
  EXPECT_EQ(client.missing_count, 0U);
  for (const FaultyLink* link : pipeline.links) {
    EXPECT_EQ(link->calls_by_kind[static_cast<std::size_t>(LinkCall::kAttach)], 1U);
    for (const LinkCall call : {LinkCall::kDecode, LinkCall::kClear, LinkCall::kCopy,
                                LinkCall::kKeep, LinkCall::kHeld, LinkCall::kRestore})
      EXPECT_GT(link->calls_by_kind[static_cast<std::size_t>(call)], 0U);
    const bool can_truncate = !pipeline.runtime->info().shape.HasSnapshot();
    EXPECT_EQ(link->calls_by_kind[static_cast<std::size_t>(LinkCall::kTruncate)] > 0, can_truncate);
  }
}

TEST_P(PipelineFaults, OneFaultAtAnyCallOfAnyStageCostsNoMoreThanATry) {
  WholeModel whole(Stages().options);
  std::uint64_t most = 0;
  {
    Pipeline pipeline(Stages());
    Client client(*pipeline.runtime, whole, 1);
    Script(client);
    for (const FaultyLink* link : pipeline.links) most = std::max(most, link->calls.load());
  }
  std::uint64_t met = 0;
  for (std::size_t stage = 0; stage < 3; ++stage)
    for (std::uint64_t call = 2; call <= most; ++call)
      for (int fault = 1; fault < kLinkFaults; ++fault) {
        if ((call + static_cast<std::uint64_t>(fault)) % 2 == 0) continue;  // half of them will do
        Pipeline::Setup setup = Stages();
        setup.faults.resize(3);
        setup.faults[stage].calls = {{call, static_cast<LinkFault>(fault)}};
        Pipeline pipeline(setup);
        // The pass that met it, and one more where it struck a restore that goes on behind it.
        Client client(*pipeline.runtime, whole, 3);
        Script(client);
        met += pipeline.links[stage]->faults_met[static_cast<std::size_t>(fault)];
        ASSERT_FALSE(HasFailure()) << "stage " << stage << " call " << call << " fault " << fault;
      }
  EXPECT_GT(met, 300U);
}

// Two faults, the second one while the first is being recovered from.
TEST_P(PipelineFaults, AFaultWhileRecoveringIsNoWorse) {
  WholeModel whole(Stages().options);
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    Pipeline::Setup setup = Stages();
    setup.faults.resize(3);
    const std::uint64_t first = Mix(seed, 1) % 60 + 2;
    const auto fault = [&](std::uint64_t dice) {
      return static_cast<LinkFault>(Mix(seed, dice) % (kLinkFaults - 1) + 1);
    };
    setup.faults[Mix(seed, 2) % 3].calls[first] = fault(3);
    setup.faults[Mix(seed, 4) % 3].calls[first + Mix(seed, 5) % 5] = fault(6);
    Pipeline pipeline(setup);
    Client client(*pipeline.runtime, whole, 6);
    Script(client);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST_P(PipelineFaults, AtRandomNothingIsEverWrong) {
  WholeModel whole(Stages().options);
  std::uint64_t restored = 0;
  std::uint64_t missing = 0;
  std::uint64_t failed = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Pipeline::Setup setup = Stages();
    std::uint64_t dice = seed;
    const auto below = [&](std::uint64_t bound) { return Mix(seed, ++dice) % bound; };
    for (std::size_t stage = 0; stage < 3; ++stage) {
      LinkFaults faults;
      faults.seed = Mix(seed, 1000 + stage);
      faults.permille = below(3) == 0 ? 0 : 10 + static_cast<std::uint32_t>(below(60));
      for (int fault = 1; fault < kLinkFaults; ++fault)
        if (below(2) == 0) faults.kinds.push_back(static_cast<LinkFault>(fault));
      // The first attaching is Make's.
      faults.calls[1] = LinkFault::kNone;
      setup.faults.push_back(std::move(faults));
      FaultPlan plan;
      plan.seed = Mix(seed, 2000 + stage);
      plan.fail_decode.permille = below(3) == 0 ? 20 : 0;
      plan.fail_import.permille = below(3) == 0 ? 100 : 0;
      plan.lie_import.permille = below(3) == 0 ? 100 : 0;
      plan.fail_export.permille = below(3) == 0 ? 50 : 0;
      setup.runtimes.push_back(plan);
    }
    if (below(3) == 0) setup.store_bytes = 1000 + below(6000);  // loses pieces all the time
    if (below(2) == 0) setup.pipeline.activation_bytes /= 20;
    Pipeline pipeline(setup);
    Client client(*pipeline.runtime, whole, 60);
    std::vector<std::vector<Token>> texts = {SomeTokens(30, seed)};
    for (int event = 0; event < 40; ++event) {
      const SeqId lane = below(2) == 0 ? kLaneA : kLaneB;
      switch (below(8)) {
        case 0: {
          const std::vector<Token>& from = texts[below(texts.size())];
          const auto cut = 1 + static_cast<std::ptrdiff_t>(below(from.size()));
          texts.push_back(Join(std::vector<Token>(from.begin(), from.begin() + cut),
                               SomeTokens(1 + below(20), Mix(seed, event))));
          client.Go(lane, texts.back());
          break;
        }
        case 1: client.Go(lane, texts[below(texts.size())]); break;
        case 2: client.Step(static_cast<Token>(below(64))); break;
        case 3: client.Save(lane); break;
        case 4: client.Restore(lane, below(100), below(4) != 0); break;
        case 5: client.Truncate(lane, static_cast<Pos>(below(40))); break;
        case 6: client.Restore(lane, below(100), true); break;
        default:
          if (below(3) == 0)
            client.Copy(lane, lane == kLaneA ? kLaneB : kLaneA);
          else
            client.Save(lane);
          break;
      }
    }
    client.Go(kLaneA, texts.back());
    restored += client.restored_count;
    missing += client.missing_count;
    failed += client.failed_count;
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(restored, 100U);
  // With activations hardly anything is lost for good.
  if (GetParam().activation_bytes == 0) {
    EXPECT_GT(missing, 20U);
  }
  EXPECT_GT(failed, 100U);
}

}  // namespace
}  // namespace skippy::pipeline
