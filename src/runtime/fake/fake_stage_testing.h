// Helpers for tests with fake stages: models, cuts, and the stages one behind the other.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/fake/fake_stage.h"

namespace skippy::runtime::fake {

// Models by the memory of their layers.
struct NamedModel {
  std::string name;
  std::vector<ShapeKind> layers;
};

inline void PrintTo(const NamedModel& model, std::ostream* out) { *out << model.name; }

inline std::vector<NamedModel> FakeModels() {
  std::vector<NamedModel> models;
  for (int kind = 0; kind < kShapeKindCount; ++kind) {
    const auto shape = static_cast<ShapeKind>(kind);
    models.push_back({std::string(ShapeKindName(shape)), std::vector<ShapeKind>(5, shape)});
  }
  using enum ShapeKind;
  models.push_back({"alternating", {kWindowOnly, kAttention, kWindowOnly, kWindowOnly, kMla}});
  models.push_back({"hybrids", {kRecurrent, kRecurrent, kAttention, kRecurrent, kHybrid}});
  models.push_back({"all", {kRecurrent, kAttention, kWindowOnly, kMla, kHybridWindow, kWindow}});
  return models;
}

using Cut = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

inline std::vector<Cut> CutsOf(std::uint32_t layers) {
  std::vector<Cut> cuts = {{{0, layers}}, {}};
  for (std::uint32_t i = 0; i < layers; ++i) cuts.back().push_back({i, i + 1});
  for (std::uint32_t i = 1; i < layers; ++i) cuts.push_back({{0, i}, {i, layers}});
  return cuts;
}

// The stages of a cut, called one after the other as a coordinator would.
class FakeChain {
 public:
  FakeChain(FakeStageOptions options, const Cut& cut) : rows_(options.width, options.vocab) {
    for (const auto& [begin, end] : cut) {
      options.begin = begin;
      options.end = end;
      stages_.push_back(std::make_unique<FakeStage>(options));
    }
  }

  FakeStage& stage(std::size_t i) { return *stages_[i]; }
  std::size_t size() const { return stages_.size(); }
  Pos End(SeqId lane) const { return stages_.front()->End(lane); }

  struct Item {
    SeqId lane;
    TokenSpan tokens;
  };
  // Logits of each item's last token; none: a stage refused.
  std::vector<std::vector<float>> Decode(const std::vector<Item>& items) {
    std::vector<std::vector<float>> rows;
    for (const Item& item : items) {
      rows.emplace_back(item.tokens.size() * rows_.width());
      EXPECT_TRUE(rows_.Rows(item.tokens, rows.back()));
    }
    std::vector<std::vector<float>> logits(items.size());
    for (const auto& stage : stages_) {
      std::vector<RowsItem> steps;
      for (std::size_t i = 0; i < items.size(); ++i)
        steps.push_back({items[i].lane, stage->End(items[i].lane), rows[i], true});
      const Status status = stage->DecodeRows(steps);
      EXPECT_TRUE(status) << (status ? "" : status.error().message);
      if (!status) return {};
      for (std::size_t i = 0; i < items.size(); ++i) {
        const auto out = stage->OutputRows(i);
        rows[i].assign(out.begin(), out.end());
        const auto last = stage->Logits(i);
        logits[i].assign(last.begin(), last.end());
      }
    }
    return logits;
  }

  // Tokens [End(lane), tokens.size()) in chunks on the grid; the logits of the last one.
  std::vector<float> Evaluate(SeqId lane, TokenSpan tokens) {
    const Pos chunk = stages_.front()->info().chunk;
    std::vector<float> logits;
    while (End(lane) < tokens.size()) {
      const Pos begin = End(lane);
      const Pos end = std::min<Pos>(static_cast<Pos>(tokens.size()), (begin / chunk + 1) * chunk);
      const auto decoded = Decode({{lane, tokens.subspan(begin, end - begin)}});
      if (decoded.empty()) return {};
      logits = decoded.front();
    }
    return logits;
  }

 private:
  const FakeRows rows_;
  std::vector<std::unique_ptr<FakeStage>> stages_;
};

}  // namespace skippy::runtime::fake
