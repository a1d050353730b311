#include "stage/wire_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "pipeline/wire.h"
#include "runtime/compare_floats.h"
#include "stage/chain.h"

namespace skippy::stage {
namespace {

using pipeline::WireFormat;

constexpr SeqId kLane{0};

using Rows = std::vector<std::vector<float>>;

// Logits of the last positions.
Result<Rows> Logits(Chain& chain, const WireTableOptions& options) {
  chain.Clear(kLane);
  const TokenSpan tokens(options.tokens);
  const std::size_t first = tokens.size() - options.positions;
  for (std::size_t at = 0; at < first;) {
    const TokenSpan step =
        tokens.subspan(at, std::min<std::size_t>(options.runtime.chunk, first - at));
    SKIPPY_RETURN_IF_ERROR(chain.Decode(kLane, static_cast<Pos>(at), step, false));
    at += step.size();
  }
  Rows logits;
  for (std::size_t at = first; at < tokens.size(); ++at) {
    SKIPPY_RETURN_IF_ERROR(chain.Decode(kLane, static_cast<Pos>(at), tokens.subspan(at, 1), true));
    const std::span<const float> row = chain.Logits();
    logits.emplace_back(row.begin(), row.end());
  }
  return logits;
}

std::size_t MostLikely(const std::vector<float>& logits) {
  return static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// The logarithm of what softmax divides by.
double LogSum(const std::vector<float>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float value : logits) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

double Divergence(const std::vector<float>& exact, const std::vector<float>& other) {
  const double exact_sum = LogSum(exact);
  const double other_sum = LogSum(other);
  double sum = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double log_exact = exact[i] - exact_sum;
    const double log_other = other[i] - other_sum;
    // A token that cannot come adds nothing; 0 times infinity would be no number.
    if (const double chance = std::exp(log_exact); chance > 0)
      sum += chance * (log_exact - log_other);
  }
  return sum < 0 ? 0 : sum;  // below zero is rounding
}

// REQUIRES: as many rows in both, and none of them empty
void Compare(const Rows& exact, const Rows& other, WireRow& row) {
  double error = 0;
  double power = 0;
  row.exact = true;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    row.exact = row.exact && runtime::SameBits(exact[i], other[i]);
    if (MostLikely(exact[i]) == MostLikely(other[i])) ++row.same_token;
    row.divergence += Divergence(exact[i], other[i]) / static_cast<double>(exact.size());
    for (std::size_t j = 0; j < exact[i].size(); ++j) {
      const double value = exact[i][j];
      error += std::pow(value - double{other[i][j]}, 2);
      power += value * value;
    }
  }
  row.nmse = power > 0 ? error / power : 0;
}

Result<std::vector<float>> OverWire(WireFormat wire, std::span<const float> rows,
                                    std::uint32_t width) {
  SKIPPY_TRY(const std::vector<std::byte> bytes, pipeline::Encode(wire, rows, width));
  return pipeline::Decode(wire, bytes, width);
}

Result<WireRow> MeasureWire(Chain& chain, const WireTableOptions& options, const Rows& exact,
                            WireFormat wire) {
  WireRow row{std::string(pipeline::WireName(wire)),
              pipeline::WireBytes(wire, chain.stages()[1].manifest.input.width),
              {}};
  chain.SetRowsHook([&](std::span<const float> rows, const Manifest& stage) {
    auto over = OverWire(wire, rows, stage.input.width);
    if (!over) row.refused = over.error().message;
    return over;
  });
  const Result<Rows> logits = Logits(chain, options);
  chain.SetRowsHook({});
  if (logits)
    Compare(exact, *logits, row);
  else if (row.refused.empty())
    return tl::unexpected<Error>(logits.error());
  return row;
}

Result<WireRow> MeasureOneUlp(Chain& chain, const WireTableOptions& options, const Rows& exact) {
  WireRow row{
      kOneUlp, pipeline::WireBytes(WireFormat::kF32, chain.stages()[1].manifest.input.width), {}};
  chain.SetRowsHook([](std::span<const float> rows, const Manifest&) -> Result<std::vector<float>> {
    std::vector<float> nudged(rows.begin(), rows.end());
    for (float& value : nudged) value = std::nextafterf(value, INFINITY);
    return nudged;
  });
  const Result<Rows> logits = Logits(chain, options);
  chain.SetRowsHook({});
  if (!logits) return tl::unexpected<Error>(logits.error());
  Compare(exact, *logits, row);
  return row;
}

Status Check(const WireTableOptions& options) {
  if (options.stages.size() < 2)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("{}: there is no boundary between stages that a wire would cross; cut "
                           "the model in two or more",
                           options.stages.empty() ? "no stages" : "one stage only"));
  if (options.positions == 0 || options.tokens.size() <= options.positions)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("{} tokens are too few: the last {} positions are compared",
                           options.tokens.size(), options.positions));
  return {};
}

}  // namespace

bool WireTable::Passed() const {
  return std::any_of(rows.begin(), rows.end(), [](const WireRow& row) {
    return row.wire == pipeline::WireName(WireFormat::kF32) && row.exact;
  });
}

Result<std::vector<std::string>> StagesIn(const std::string& folder) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  if (error)
    return Err(ErrorCode::kNotFound,
               fmt::format("cannot read the folder '{}': {}", folder, error.message()));
  std::vector<std::string> stages;
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    if (entry->path().filename().string().starts_with("stage-"))
      stages.push_back(entry->path().string());
  std::sort(stages.begin(), stages.end());
  return stages;
}

Result<WireTable> MeasureWires(const WireTableOptions& options) {
  SKIPPY_RETURN_IF_ERROR(Check(options));
  SKIPPY_TRY(const auto chain, Chain::Load(options.vocabulary, options.stages, options.runtime));
  WireTable table;
  table.model = chain->model();
  table.runtime_build = chain->stages().front().runtime.runtime->info().identity.runtime_build;
  for (const LoadedStage& stage : chain->stages()) {
    const std::uint32_t context = stage.runtime.runtime->info().context;
    if (options.tokens.size() > context)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("{} tokens in a context of {}", options.tokens.size(), context));
    table.stages.push_back(stage.manifest.layers);
  }
  table.text = options.text;
  table.tokens = static_cast<Pos>(options.tokens.size());
  table.positions = options.positions;
  SKIPPY_TRY(const Rows exact, Logits(*chain, options));
  if (std::any_of(exact.begin(), exact.end(), [](const auto& row) { return row.empty(); }))
    return Err(ErrorCode::kInternal, "the last stage gave no logits");
  SKIPPY_TRY(WireRow floor, MeasureOneUlp(*chain, options, exact));
  table.rows.push_back(std::move(floor));
  // f32 last: exact, it also says that no run left anything behind for the next.
  for (const WireFormat wire :
       {WireFormat::kInt8, WireFormat::kF16, WireFormat::kBf16, WireFormat::kF32}) {
    SKIPPY_TRY(WireRow row, MeasureWire(*chain, options, exact, wire));
    table.rows.push_back(std::move(row));
  }
  std::reverse(table.rows.begin(), table.rows.end());
  return table;
}

}  // namespace skippy::stage
