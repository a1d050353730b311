#include "stage/certify_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "pipeline/wire.h"
#include "runtime/compare_floats.h"
#include "runtime/saved_state.h"
#include "stage/load.h"

namespace skippy::stage {
namespace {

constexpr SeqId kLane{0};
constexpr Pos kPage = 64;
constexpr std::uint64_t kSeed = 1;

// What left the stage, step by step.
struct Outputs {
  std::vector<std::vector<float>> suffix;
  std::vector<std::vector<float>> steps;
};

bool Equal(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  return !a.empty() &&
         std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
           return !x.empty() && runtime::SameBits(x, y);
         });
}

// Mean squared difference over mean square.
double Nmse(const Outputs& exact, const Outputs& other) {
  double error = 0;
  double power = 0;
  for (std::size_t i = 0; i < exact.suffix.size(); ++i)
    for (std::size_t j = 0; j < exact.suffix[i].size(); ++j) {
      const double value = exact.suffix[i][j];
      error += std::pow(value - double{other.suffix[i][j]}, 2);
      power += value * value;
    }
  return power > 0 ? error / power : 0;
}

class Certifier {
 public:
  explicit Certifier(const StageCertifyOptions& options) : options_(options) {}
  Result<StageCertificate> Run();

 private:
  Result<InputRows> Input() const;
  Status Feed(llama::StageRuntime& stage, const InputRows& rows, PosRange positions,
              std::vector<std::vector<float>>* outputs) const;
  Status Finish(llama::StageRuntime& stage, const InputRows& rows, Outputs& outputs) const;
  Result<Outputs> Cold(const InputRows& rows, runtime::SavedState* saved);
  Status RestoreLanes(const InputRows& rows);
  Status WireLane(const InputRows& rows);
  Status Time(const InputRows& rows);
  void Add(std::string name, bool passed, std::string detail) {
    certificate_.lanes.push_back(
        {std::move(name), passed ? LaneVerdict::kPassed : LaneVerdict::kFailed, std::move(detail)});
  }
  Pos Total() const { return options_.prefix + options_.suffix + options_.steps; }
  std::vector<Token> NoTokens() const { return std::vector<Token>(options_.prefix, 0); }

  const StageCertifyOptions& options_;
  Manifest manifest_;
  LoadedStage stage_;
  runtime::SavedState saved_;
  Outputs cold_;
  StageCertificate certificate_;
};

Result<InputRows> Certifier::Input() const {
  if (options_.vocabulary.empty()) return SyntheticRows(manifest_.input.width, Total(), kSeed);
  if (manifest_.first()) return RowsOfTokens(options_.vocabulary, Total());
  if (options_.upstream.empty())
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("stage {} takes what the layers before it make of tokens: name their "
                           "packages as upstream, or no vocabulary for synthetic input",
                           ToString(manifest_.layers)));
  return RowsOfUpstream(options_.vocabulary, options_.upstream, manifest_, Total(),
                        options_.runtime);
}

// Rows of `positions`, in chunks from a multiple of the chunk on.
Status Certifier::Feed(llama::StageRuntime& stage, const InputRows& rows, PosRange positions,
                       std::vector<std::vector<float>>* outputs) const {
  const Pos chunk = stage.runtime->info().chunk;
  for (Pos at = positions.begin; at < positions.end;) {
    const Pos end = std::min(positions.end, (at / chunk + 1) * chunk);
    const runtime::RowsItem item{kLane, at, rows.At({at, end}), true};
    SKIPPY_RETURN_IF_ERROR(stage.stage->DecodeRows({&item, 1}));
    at = end;
    if (outputs == nullptr) continue;
    const std::span<const float> left =
        manifest_.last() ? stage.runtime->Logits(0) : stage.stage->OutputRows(0);
    outputs->emplace_back(left.begin(), left.end());
  }
  return {};
}

// What lies behind the prefix.
Status Certifier::Finish(llama::StageRuntime& stage, const InputRows& rows,
                         Outputs& outputs) const {
  const Pos middle = options_.prefix + options_.suffix;
  SKIPPY_RETURN_IF_ERROR(Feed(stage, rows, {options_.prefix, middle}, &outputs.suffix));
  for (Pos at = middle; at < Total(); ++at)
    SKIPPY_RETURN_IF_ERROR(Feed(stage, rows, {at, at + 1}, &outputs.steps));
  return {};
}

Result<Outputs> Certifier::Cold(const InputRows& rows, runtime::SavedState* saved) {
  Outputs outputs;
  llama::StageRuntime& stage = stage_.runtime;
  stage.runtime->Clear(kLane);
  SKIPPY_RETURN_IF_ERROR(Feed(stage, rows, {0, options_.prefix}, nullptr));
  if (saved != nullptr) {
    SKIPPY_TRY(*saved, runtime::Save(*stage.runtime, kLane, kPage));
  }
  SKIPPY_RETURN_IF_ERROR(Finish(stage, rows, outputs));
  return outputs;
}

Status Certifier::RestoreLanes(const InputRows& rows) {
  SKIPPY_TRY(cold_, Cold(rows, &saved_));
  certificate_.state_bytes = saved_.bytes();
  SKIPPY_TRY(const Outputs again, Cold(rows, nullptr));
  Add("repeat", Equal(cold_.suffix, again.suffix) && Equal(cold_.steps, again.steps),
      "the run without a restore, twice");

  SKIPPY_TRY(llama::StageRuntime fresh, NewRuntime(manifest_, *stage_.model, options_.runtime));
  const std::vector<Token> tokens = NoTokens();
  runtime::Runtime& runtime = *fresh.runtime;
  SKIPPY_RETURN_IF_ERROR(runtime::RestoreInto(runtime, kLane, saved_, tokens, options_.prefix));
  SKIPPY_TRY(const runtime::SavedState back, runtime::Save(runtime, kLane, kPage));
  Add("state round trip", saved_ == back,
      fmt::format("{} bytes of {} positions", saved_.bytes(), options_.prefix));
  Outputs warm;
  SKIPPY_RETURN_IF_ERROR(Finish(fresh, rows, warm));
  Add("restore and suffix", Equal(cold_.suffix, warm.suffix),
      fmt::format("{} tokens behind {} restored ones", options_.suffix, options_.prefix));
  Add("continuation", Equal(cold_.steps, warm.steps),
      fmt::format("{} tokens one by one", options_.steps));
  if (manifest_.last())
    Add("output head", Equal(cold_.suffix, warm.suffix) && Equal(cold_.steps, warm.steps),
        "what was compared are logits");
  return {};
}

Status Certifier::WireLane(const InputRows& rows) {
  LaneEvidence lane{"q8_wire_validation", LaneVerdict::kUntested, "not asked for"};
  if (options_.q8_wire) {
    constexpr pipeline::WireFormat kWire = pipeline::WireFormat::kInt8;
    SKIPPY_TRY(const auto bytes, pipeline::Encode(kWire, rows.rows, rows.width));
    InputRows wired = rows;
    SKIPPY_TRY(wired.rows, pipeline::Decode(kWire, bytes, rows.width));
    SKIPPY_TRY(const Outputs lossy, Cold(wired, nullptr));
    InputRows nudged = rows;
    for (float& value : nudged.rows) value = std::nextafterf(value, INFINITY);
    SKIPPY_TRY(const Outputs ulp, Cold(nudged, nullptr));
    const double error = Nmse(cold_, lossy);
    lane.verdict = std::isfinite(error) ? LaneVerdict::kPassed : LaneVerdict::kFailed;
    lane.detail = fmt::format("{} bytes a row instead of {}; NMSE {:.3g}, of one ulp {:.3g}",
                              pipeline::WireBytes(kWire, rows.width),
                              pipeline::WireBytes(pipeline::WireFormat::kF32, rows.width), error,
                              Nmse(cold_, ulp));
  }
  certificate_.lanes.push_back(std::move(lane));
  return {};
}

Status Certifier::Time(const InputRows& rows) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  };
  runtime::Runtime& runtime = *stage_.runtime.runtime;
  const PosRange next{options_.prefix, options_.prefix + 1};
  const std::vector<Token> tokens = NoTokens();
  for (std::uint32_t round = 0; round < options_.rounds; ++round) {
    runtime.Clear(kLane);
    const auto cold = Clock::now();
    SKIPPY_RETURN_IF_ERROR(Feed(stage_.runtime, rows, {0, options_.prefix}, nullptr));
    SKIPPY_RETURN_IF_ERROR(Feed(stage_.runtime, rows, next, nullptr));
    certificate_.recompute_ms.push_back(since(cold));
    runtime.Clear(kLane);
    const auto warm = Clock::now();
    SKIPPY_RETURN_IF_ERROR(runtime::RestoreInto(runtime, kLane, saved_, tokens, options_.prefix));
    SKIPPY_RETURN_IF_ERROR(Feed(stage_.runtime, rows, next, nullptr));
    certificate_.restore_ms.push_back(since(warm));
  }
  return {};
}

Result<StageCertificate> Certifier::Run() {
  SKIPPY_TRY(manifest_, ReadManifest(options_.package));
  if (manifest_.kind != "stage")
    return Err(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a stage", options_.package));
  SKIPPY_TRY(const InputRows rows, Input());
  SKIPPY_TRY(stage_, LoadStage(options_.package, {.runtime = options_.runtime}));
  const runtime::RuntimeInfo& info = stage_.runtime.runtime->info();
  if (info.policy == PayloadPolicy::kOff)
    return Err(ErrorCode::kUnsupported, "this stage's state is not cached: " + info.policy_reason);
  if (Total() > info.context)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("{} positions in a context of {}", Total(), info.context));
  certificate_.package = manifest_;
  certificate_.runtime_build = info.identity.runtime_build;
  certificate_.input = rows.kind;
  certificate_.input_description = rows.description;
  certificate_.prefix = options_.prefix;
  SKIPPY_RETURN_IF_ERROR(RestoreLanes(rows));
  SKIPPY_RETURN_IF_ERROR(WireLane(rows));
  SKIPPY_RETURN_IF_ERROR(Time(rows));
  return std::move(certificate_);
}

}  // namespace

std::string_view LaneVerdictName(LaneVerdict verdict) {
  switch (verdict) {
    case LaneVerdict::kPassed: return "passed";
    case LaneVerdict::kFailed: return "failed";
    case LaneVerdict::kUntested: return "untested";
  }
  return "unknown";
}

bool StageCertificate::Passed() const {
  return !lanes.empty() && std::none_of(lanes.begin(), lanes.end(), [](const LaneEvidence& lane) {
    return lane.verdict == LaneVerdict::kFailed;
  });
}

Result<StageCertificate> CertifyStage(const StageCertifyOptions& options) {
  return Certifier(options).Run();
}

}  // namespace skippy::stage
