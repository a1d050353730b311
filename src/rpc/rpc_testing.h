// Helpers for tests: fake stages behind a server.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/piece_store.h"
#include "pipeline/stage_host.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "runtime/fake/fake_stage.h"

namespace skippy::rpc {

using runtime::fake::FakeStage;
using runtime::fake::FakeStageOptions;
using runtime::fake::ShapeKind;
using Links = std::vector<std::unique_ptr<pipeline::StageLink>>;

constexpr SeqId kLaneA{0};
constexpr SeqId kLaneB{1};

inline FakeStageOptions Layers(std::vector<ShapeKind> model, std::uint32_t begin,
                               std::uint32_t end) {
  FakeStageOptions options;
  options.model = std::move(model);
  options.begin = begin;
  options.end = end;
  return options;
}

inline const std::vector<ShapeKind> kModel = {ShapeKind::kAttention, ShapeKind::kWindow,
                                              ShapeKind::kMla, ShapeKind::kAttention};

inline pipeline::StagePackage PackageOf(const FakeStageOptions& options) {
  pipeline::StagePackage package;
  package.model.bytes.fill(7);
  package.model_name = "fake.gguf";
  package.architecture = "fake";
  package.model_layers = static_cast<std::uint32_t>(options.model.size());
  package.layers = {options.begin, options.end};
  return package;
}

// Lets calls through until it is shut; then they wait in it.
class Gate {
 public:
  void Shut() {
    const std::lock_guard lock(mutex_);
    open_ = false;
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    --waiting_;
  }
  void AwaitSomebodyWaiting() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int waiting_ = 0;
};

// A fake stage whose Decode waits at a gate.
class GatedStage final : public runtime::Runtime, public runtime::StageAccess {
 public:
  GatedStage(const FakeStageOptions& options, Gate& gate) : stage_(options), gate_(gate) {}

  Status DecodeRows(std::span<const runtime::RowsItem> items) override {
    gate_.Pass();
    return stage_.DecodeRows(items);
  }

  const runtime::RuntimeInfo& info() const override { return stage_.info(); }
  Status Decode(std::span<const runtime::DecodeItem> items) override {
    return stage_.Decode(items);
  }
  std::span<const float> Logits(std::size_t item) override { return stage_.Logits(item); }
  Pos End(SeqId lane) const override { return stage_.End(lane); }
  Pos WindowHeldFrom(SeqId lane) const override { return stage_.WindowHeldFrom(lane); }
  bool Truncate(SeqId lane, Pos end) override { return stage_.Truncate(lane, end); }
  void Clear(SeqId lane) override { stage_.Clear(lane); }
  Status Copy(SeqId from, SeqId to) override { return stage_.Copy(from, to); }
  Status ExportRows(SeqId lane, Component component, PosRange positions,
                    MutableByteSpan out) override {
    return stage_.ExportRows(lane, component, positions, out);
  }
  Status ExportSnapshot(SeqId lane, MutableByteSpan out) override {
    return stage_.ExportSnapshot(lane, out);
  }
  Status Import(const runtime::ImportRequest& request) override { return stage_.Import(request); }
  Result<std::vector<AdapterIdentity>> ResolveAdapters(
      std::span<const std::pair<std::uint32_t, float>> adapters) const override {
    return stage_.ResolveAdapters(adapters);
  }
  Status UseAdapters(std::span<const std::pair<std::uint32_t, float>> adapters) override {
    return stage_.UseAdapters(adapters);
  }
  std::uint32_t input_width() const override { return stage_.input_width(); }
  std::uint32_t output_width() const override { return stage_.output_width(); }
  std::vector<runtime::StatePart> Parts(Component component) const override {
    return stage_.Parts(component);
  }
  std::span<const float> OutputRows(std::size_t item) const override {
    return stage_.OutputRows(item);
  }

 private:
  FakeStage stage_;
  Gate& gate_;
};

// A stage with all that it needs.
struct Stage {
  explicit Stage(const FakeStageOptions& options, std::vector<pipeline::PieceSource*> peers = {})
      : runtime(options, gate), host(PackageOf(options), runtime, store, std::move(peers)) {}
  Gate gate;
  GatedStage runtime;
  pipeline::PieceStore store{std::uint64_t{64} << 20U};
  pipeline::StageHost host;
};

// A server that must start.
struct Serving {
  explicit Serving(const ServerOptions& options) {
    const Result<std::uint16_t> bound = server.Start(options);
    EXPECT_TRUE(bound) << (bound ? "" : bound.error().message);
    if (bound) address = "127.0.0.1:" + std::to_string(*bound);
  }
  explicit Serving(std::vector<pipeline::StageHost*> hosts)
      : Serving(ServerOptions{.address = "127.0.0.1:0", .hosts = std::move(hosts)}) {}
  StageServer server;
  std::string address;
};

inline Links MustConnect(std::string_view address, const ClientOptions& options = {}) {
  auto links = Connect(address, options);
  EXPECT_TRUE(links) << (links ? "" : links.error().message);
  return links ? std::move(*links) : Links();
}

// One link, attached.
inline std::unique_ptr<pipeline::StageLink> MustAttach(std::string_view address,
                                                       const ClientOptions& options = {}) {
  Links links = MustConnect(address, options);
  EXPECT_EQ(links.size(), 1U);
  if (links.size() != 1) return nullptr;
  const auto attached = links.front()->Attach();
  EXPECT_TRUE(attached) << (attached ? "" : attached.error().message);
  return std::move(links.front());
}

// Deterministic rows of activations, of about the size that models have.
inline std::vector<float> Rows(std::size_t count, std::uint32_t width, std::uint32_t seed = 1) {
  std::vector<float> rows(count * width);
  for (float& value : rows) {
    seed = seed * 1664525U + 1013904223U;
    value = static_cast<float>(seed >> 8U) / static_cast<float>(1U << 23U) - 1.0F;
  }
  return rows;
}

template <class T>
testing::AssertionResult IsError(const Result<T>& result, ErrorCode code,
                                 const std::vector<std::string>& words) {
  if (result) return testing::AssertionFailure() << "no error";
  const Error& error = result.error();
  if (error.code != code)
    return testing::AssertionFailure() << ErrorCodeName(error.code) << ": " << error.message;
  for (const std::string& word : words)
    if (error.message.find(word) == std::string::npos)
      return testing::AssertionFailure() << "no '" << word << "' in: " << error.message;
  return testing::AssertionSuccess();
}

}  // namespace skippy::rpc
