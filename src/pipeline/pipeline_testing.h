// Helpers for the tests of pipelines: stages of this process that can be restarted and lose what
// they keep, links that fail and lie, and the whole model to compare with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/agreement.h"
#include "pipeline/piece_source.h"
#include "pipeline/piece_store.h"
#include "pipeline/pipeline_runtime.h"
#include "pipeline/stage_host.h"
#include "pipeline/stage_link.h"
#include "pipeline/token_rows.h"
#include "runtime/fake/fake_stage.h"
#include "runtime/fake/fake_stage_testing.h"
#include "runtime/fake/fake_testing.h"

namespace skippy::pipeline {

using runtime::fake::Cut;
using runtime::fake::FakeChain;
using runtime::fake::FakeStage;
using runtime::fake::FakeStageOptions;
using runtime::fake::FaultPlan;
using runtime::fake::kLaneA;
using runtime::fake::kLaneB;
using runtime::fake::Mix;
using runtime::fake::NamedModel;
using runtime::fake::ShapeKind;
using runtime::fake::SomeTokens;

class TestRows final : public TokenRows {
 public:
  explicit TestRows(const FakeStageOptions& options) : rows_(options.width, options.vocab) {}
  std::uint32_t width() const override { return rows_.width(); }
  std::uint32_t tokens() const override { return rows_.tokens(); }
  Status Rows(TokenSpan tokens, std::span<float> out) const override {
    return rows_.Rows(tokens, out);
  }

 private:
  const runtime::fake::FakeRows rows_;
};

inline Digest DigestOf(std::string_view text) {
  return Blake3(std::as_bytes(std::span(text.data(), text.size())));
}

inline Coordinator CoordinatorOf(const FakeStageOptions& options) {
  Coordinator coordinator;
  coordinator.model = DigestOf("model" + std::to_string(options.weights_seed));
  coordinator.model_name = "M.gguf";
  coordinator.tokenizer = DigestOf("tokenizer");
  coordinator.layers = static_cast<std::uint32_t>(options.model.size());
  coordinator.width = options.width;
  coordinator.vocab = options.vocab;
  return coordinator;
}

inline StagePackage PackageOf(const FakeStageOptions& options) {
  const Coordinator coordinator = CoordinatorOf(options);
  StagePackage package;
  package.model = coordinator.model;
  package.model_name = coordinator.model_name;
  package.architecture = "fake";
  package.model_layers = coordinator.layers;
  package.layers = {options.begin, options.end};
  return package;
}

// A store as a peer.
class StoreSource final : public PieceSource {
 public:
  explicit StoreSource(const PieceStore& store) : store_(store) {}
  Result<std::vector<StoredLayer>> Fetch(std::span<const Digest> names,
                                         std::span<const std::uint32_t> layers) override {
    return store_.Copies(names, layers);
  }

 private:
  const PieceStore& store_;
};

// A stage's process. Restart() is what happens to it when the process ends and comes back: lanes,
// kept pieces and sessions are gone. The store may be shared, as between stages of one process.
class StageProcess {
 public:
  StageProcess(const FakeStageOptions& options, std::shared_ptr<PieceStore> store,
               FaultPlan faults = {}, const std::vector<std::shared_ptr<PieceStore>>& peers = {})
      : options_(options), store_(std::move(store)), faults_(std::move(faults)) {
    for (const auto& peer : peers) peers_.push_back(std::make_unique<StoreSource>(*peer));
    Start();
  }
  StageProcess(const FakeStageOptions& options, std::uint64_t store_bytes, FaultPlan faults = {})
      : StageProcess(options, std::make_shared<PieceStore>(store_bytes), std::move(faults)) {}

  void Restart() {
    LosePieces();
    Start();
  }
  // The lanes stay.
  void LosePieces() {
    for (const PieceKey& key : ever_kept_) store_->Drop(key);
  }
  void Remember(const PieceKey& key) { ever_kept_.insert(key); }
  std::vector<PieceKey> EverKept(std::span<const Digest> names) const {
    std::vector<PieceKey> pieces;
    for (const PieceKey& key : ever_kept_)
      if (std::find(names.begin(), names.end(), key.name) != names.end()) pieces.push_back(key);
    return pieces;
  }

  FakeStage& runtime() { return *runtime_; }
  PieceStore& store() { return *store_; }
  StageHost& host() { return *host_; }
  const FakeStageOptions& options() const { return options_; }

 private:
  void Start() {
    host_.reset();
    runtime_ = std::make_unique<FakeStage>(options_, faults_);
    std::vector<PieceSource*> peers;
    for (const auto& peer : peers_) peers.push_back(peer.get());
    host_ = std::make_unique<StageHost>(PackageOf(options_), *runtime_, *store_, std::move(peers));
  }

  const FakeStageOptions options_;
  const std::shared_ptr<PieceStore> store_;
  const FaultPlan faults_;
  std::vector<std::unique_ptr<StoreSource>> peers_;
  std::unique_ptr<FakeStage> runtime_;
  std::unique_ptr<StageHost> host_;
  std::set<PieceKey> ever_kept_;
};

enum class LinkFault : std::uint8_t {
  kNone = 0,
  kLostCall,    // never arrives
  kLostAnswer,  // is carried out; the caller hears nothing of it
  kError,       // fails without having done anything
  kRestart,     // the stage's process was restarted before
  kTakenOver,   // another coordinator attached before
  kLosePieces,  // what was kept is gone before
  kLie,         // says success and did not do it, or holds less
  kBadAnswer,   // an answer of another form
};
inline constexpr int kLinkFaults = 9;

enum class LinkCall : std::uint8_t {
  kAttach = 0,
  kDecode,
  kClear,
  kTruncate,
  kCopy,
  kKeep,
  kHeld,
  kFind,
  kRestore,
  kForget
};
inline constexpr int kLinkCalls = 10;

// Which calls meet which fault: the first call of a number, and by chance.
struct LinkFaults {
  std::map<std::uint64_t, LinkFault> calls;  // by number, from 1, attaching included
  std::uint64_t seed = 0;
  std::uint32_t permille = 0;
  std::vector<LinkFault> kinds;  // drawn from
};

// A link to a process. Clear never lies: a stage that keeps a lane it was told to empty, and
// afterwards claims to have restored as many tokens of something else, cannot be found out.
class FaultyLink final : public StageLink {
 public:
  FaultyLink(StageProcess& process, LinkFaults faults)
      : process_(process),
        faults_(std::move(faults)),
        address_("test/" + ToString(process.host().package().layers)) {}

  const std::string& address() const override { return address_; }

  Result<StageDescription> Attach() override {
    const LinkFault fault = Next(LinkCall::kAttach);
    if (auto lost = Lost(fault)) return *lost;
    SKIPPY_TRY(StageDescription description, process_.host().Attach());
    session_ = description.session;
    number_ = 0;
    if (fault == LinkFault::kBadAnswer) description.input_width += 1;
    if (fault == LinkFault::kLostAnswer) return NoAnswer();
    return description;
  }

  Result<StageOutput> Decode(std::span<const runtime::RowsItem> items) override {
    const LinkFault fault = Next(LinkCall::kDecode);
    if (auto lost = Lost(fault)) return *lost;
    Result<StageOutput> output = process_.host().Decode(Ticket(), items);
    if (fault == LinkFault::kLostAnswer) return NoAnswer();
    if (output && fault == LinkFault::kLie) {
      process_.runtime().Clear(items.front().lane);
      output->lanes.front().end = 0;
    }
    if (output && fault == LinkFault::kBadAnswer) {
      switch (number_ % 3) {
        case 0: output->lanes.pop_back(); break;
        case 1:
          output->rows.resize(output->rows.size() / 2);
          if (!output->logits.empty()) output->logits.front().resize(1);
          break;
        default: output->logits.resize(output->logits.size() + 1); break;
      }
    }
    return output;
  }

  Status Clear(SeqId lane) override {
    const LinkFault fault = Next(LinkCall::kClear);
    if (auto lost = Lost(fault)) return *lost;
    Status cleared = process_.host().Clear(Ticket(), lane);
    if (fault == LinkFault::kLostAnswer) return NoAnswer();
    return cleared;
  }

  Result<LanePlace> Truncate(SeqId lane, Pos end) override {
    const LinkFault fault = Next(LinkCall::kTruncate);
    if (auto lost = Lost(fault)) return *lost;
    if (fault == LinkFault::kLie) return LanePlace{end, 0};
    return Place(fault, process_.host().Truncate(Ticket(), lane, end));
  }

  Result<LanePlace> Copy(SeqId from, SeqId to) override {
    const LinkFault fault = Next(LinkCall::kCopy);
    if (auto lost = Lost(fault)) return *lost;
    if (fault == LinkFault::kLie)
      return LanePlace{process_.runtime().End(from), process_.runtime().WindowHeldFrom(from)};
    return Place(fault, process_.host().Copy(Ticket(), from, to));
  }

  Status Keep(SeqId lane, const PieceKey& piece) override {
    const LinkFault fault = Next(LinkCall::kKeep);
    if (auto lost = Lost(fault)) return *lost;
    if (fault == LinkFault::kLie) {
      process_.store().Drop(piece);
      return {};
    }
    Status kept = process_.host().Keep(Ticket(), lane, piece);
    if (kept) process_.Remember(piece);
    if (fault == LinkFault::kLostAnswer) return NoAnswer();
    return kept;
  }

  Result<std::vector<bool>> Held(std::span<const PieceKey> pieces) override {
    const LinkFault fault = Next(LinkCall::kHeld);
    if (auto lost = Lost(fault)) return *lost;
    if (fault == LinkFault::kLie) return std::vector<bool>(pieces.size(), true);
    Result<std::vector<bool>> held = process_.host().Held(Ticket(), pieces);
    if (held) missing += static_cast<std::uint64_t>(std::count(held->begin(), held->end(), false));
    if (fault == LinkFault::kLostAnswer) return NoAnswer();
    if (held && fault == LinkFault::kBadAnswer && !held->empty()) held->pop_back();
    return held;
  }

  Result<std::vector<PieceKey>> Find(std::span<const Digest> names) override {
    const LinkFault fault = Next(LinkCall::kFind);
    if (auto lost = Lost(fault)) return *lost;
    if (fault == LinkFault::kLie) return process_.EverKept(names);
    Result<std::vector<PieceKey>> found = process_.host().Find(Ticket(), names);
    if (fault == LinkFault::kLostAnswer) return NoAnswer();
    if (found && fault == LinkFault::kBadAnswer) {
      PieceKey strange;
      strange.positions = {5, 3};
      found->push_back(strange);
      if (!names.empty()) strange.name = names.front();
      found->push_back(strange);
    }
    return found;
  }

  Status Forget() override {
    if (auto lost = Lost(Next(LinkCall::kForget))) return *lost;
    return process_.host().Forget(Ticket());
  }

  Result<LanePlace> Restore(const StageRestore& restore) override {
    const LinkFault fault = Next(LinkCall::kRestore);
    if (auto lost = Lost(fault)) return *lost;
    if (fault == LinkFault::kLie) return LanePlace{restore.end, 0};
    Result<LanePlace> place = process_.host().Restore(Ticket(), restore);
    if (place) ++restores;
    if (!place && place.error().code == ErrorCode::kNotFound) ++not_found;
    if (place && fault == LinkFault::kBadAnswer && number_ % 2 == 0) {
      place->window_from = place->end;  // says that it holds nothing of the window
      return place;
    }
    return Place(fault, std::move(place));
  }

  // Of the queue's thread, read by the test's.
  std::atomic<std::uint64_t> calls = 0;
  std::atomic<std::uint64_t> restores = 0;
  std::atomic<std::uint64_t> missing = 0;    // pieces that Held said are not there
  std::atomic<std::uint64_t> not_found = 0;  // restores that failed for lack of a piece
  std::array<std::atomic<std::uint64_t>, kLinkCalls> calls_by_kind{};
  std::array<std::atomic<std::uint64_t>, kLinkFaults> faults_met{};

 private:
  CallTicket Ticket() { return {session_, ++number_}; }

  LinkFault Next(LinkCall call) {
    const std::uint64_t number = ++calls;
    ++calls_by_kind[static_cast<std::size_t>(call)];
    LinkFault fault = LinkFault::kNone;
    const std::uint64_t dice = Mix(faults_.seed, number);
    if (!faults_.kinds.empty() && dice % 1000 < faults_.permille)
      fault = faults_.kinds[Mix(dice) % faults_.kinds.size()];
    if (const auto planned = faults_.calls.find(number); planned != faults_.calls.end())
      fault = planned->second;
    ++faults_met[static_cast<std::size_t>(fault)];
    if (fault == LinkFault::kRestart) process_.Restart();
    if (fault == LinkFault::kTakenOver) std::ignore = process_.host().Attach();
    if (fault == LinkFault::kLosePieces) process_.LosePieces();
    return fault;
  }
  static std::optional<tl::unexpected<Error>> Lost(LinkFault fault) {
    if (fault == LinkFault::kLostCall) return Err(ErrorCode::kUnavailable, "the call was lost");
    if (fault == LinkFault::kError) return Err(ErrorCode::kInternal, "an injected error");
    return std::nullopt;
  }
  static tl::unexpected<Error> NoAnswer() {
    return Err(ErrorCode::kUnavailable, "the answer was lost");
  }
  static Result<LanePlace> Place(LinkFault fault, Result<LanePlace> place) {
    if (fault == LinkFault::kLostAnswer) return NoAnswer();
    if (place && fault == LinkFault::kBadAnswer) ++place->end;
    return place;
  }

  StageProcess& process_;
  const LinkFaults faults_;
  const std::string address_;
  std::uint64_t session_ = 0;
  std::uint64_t number_ = 0;
};

// A model in stages of this process, and the runtime that they are together.
struct Pipeline {
  struct Setup {
    FakeStageOptions options;
    Cut cut;
    std::uint64_t store_bytes = std::uint64_t{1} << 26;
    std::vector<std::shared_ptr<PieceStore>> stores = {};  // by stage; empty: one each of that size
    std::vector<std::shared_ptr<PieceStore>> peers = {};   // of all stages; outlive the pipeline
    std::vector<LinkFaults> faults = {};                   // by stage; missing ones: none
    std::vector<FaultPlan> runtimes = {};                  // by stage; missing ones: none
    PipelineOptions pipeline = {};
    std::vector<std::size_t> order = {};  // in which links are given; empty: by layers
  };

  explicit Pipeline(const Setup& setup) : options(setup.options), rows(setup.options) {
    std::vector<std::unique_ptr<FaultyLink>> made;
    for (std::size_t i = 0; i < setup.cut.size(); ++i) {
      FakeStageOptions own = setup.options;
      own.begin = setup.cut[i].first;
      own.end = setup.cut[i].second;
      auto store =
          setup.stores.empty() ? std::make_shared<PieceStore>(setup.store_bytes) : setup.stores[i];
      processes.push_back(std::make_unique<StageProcess>(
          own, std::move(store), i < setup.runtimes.size() ? setup.runtimes[i] : FaultPlan{},
          setup.peers));
      made.push_back(std::make_unique<FaultyLink>(
          *processes.back(), i < setup.faults.size() ? setup.faults[i] : LinkFaults{}));
      links.push_back(made.back().get());
    }
    std::vector<std::size_t> order = setup.order;
    for (std::size_t i = order.size(); i < made.size(); ++i) order.push_back(i);
    std::vector<std::unique_ptr<StageLink>> given;
    for (const std::size_t i : order) given.push_back(std::move(made[i]));
    auto result =
        PipelineRuntime::Make(CoordinatorOf(options), std::move(given), rows, setup.pipeline);
    if (result)
      runtime = std::move(*result);
    else
      error = result.error();
  }

  const FakeStageOptions options;
  const TestRows rows;
  std::vector<std::unique_ptr<StageProcess>> processes;  // outlive the links
  std::vector<FaultyLink*> links;                        // by layers; the runtime owns them
  std::unique_ptr<PipelineRuntime> runtime;
  std::optional<Error> error;  // no runtime
};

inline constexpr std::uint64_t kActivations = std::uint64_t{1} << 20;  // bytes; enough for a test

inline Pipeline::Setup ThreeStages(std::vector<ShapeKind> model, std::uint64_t activation_bytes) {
  Pipeline::Setup setup;
  const auto layers = static_cast<std::uint32_t>(model.size());
  setup.options.model = std::move(model);
  setup.cut = {{0, 1}, {1, 3}, {3, layers}};
  setup.pipeline.activation_bytes = activation_bytes;
  return setup;
}

inline std::vector<Token> Join(TokenSpan a, TokenSpan b) {
  std::vector<Token> text(a.begin(), a.end());
  text.insert(text.end(), b.begin(), b.end());
  return text;
}

// The logits after a text, from one stage of all layers. Answers are remembered.
class WholeModel {
 public:
  explicit WholeModel(FakeStageOptions options)
      : chain_(OneLane(options), {{0, static_cast<std::uint32_t>(options.model.size())}}) {}

  const std::vector<float>& Logits(TokenSpan text) {
    std::vector<Token> key(text.begin(), text.end());
    auto found = known_.find(key);
    if (found == known_.end()) {
      chain_.stage(0).Clear(kLaneA);
      found = known_.emplace(std::move(key), chain_.Evaluate(kLaneA, text)).first;
    }
    return found->second;
  }

 private:
  static FakeStageOptions OneLane(FakeStageOptions options) {
    options.lanes = 1;
    return options;
  }
  FakeChain chain_;
  std::map<std::vector<Token>, std::vector<float>> known_;
};

}  // namespace skippy::pipeline
