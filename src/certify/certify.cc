#include "certify/certify.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "certify/begin.h"
#include "certify/evidence.h"
#include "certify/tier_matrix.h"

namespace skippy::certify {
namespace {

struct Work {
  std::string name;
  std::function<std::vector<Row>(Arena&)> run;
};

// Work that shares a setting.
struct Stage {
  std::string label;  // empty: the certified setting itself
  runtime::RuntimeOptions runtime;
  std::vector<Work> work;
};

std::vector<Row> One(Row row) { return {std::move(row)}; }

Work TierWork(Tier tier, Scenario scenario, Exactness exactness) {
  return {fmt::format("{}, {} ({})", TierName(tier), ScenarioName(scenario),
                      PromiseName(PromiseOf(exactness))),
          [=](Arena& arena) { return One(RunTier(arena, tier, scenario, exactness)); }};
}

Work CopyWork(Scenario scenario) {
  return {fmt::format("{}, {}", kCopyTierName, ScenarioName(scenario)),
          [=](Arena& arena) { return One(RunCopy(arena, scenario)); }};
}

using ExactRows = std::vector<Row> (*)(Arena&, Exactness);
Work ExactWork(const char* name, ExactRows rows, Exactness exactness) {
  return {fmt::format("{} ({})", name, PromiseName(PromiseOf(exactness))),
          [=](Arena& arena) { return rows(arena, exactness); }};
}

class Planner {
 public:
  Planner(const Settings& settings, const runtime::RuntimeInfo& info)
      : settings_(settings), info_(info), base_(settings.runtime) {
    // What the runtime made of zeros, so that variations differ in one thing only.
    base_.context = info.context;
    base_.lanes = info.lanes;
    base_.chunk = info.chunk;
  }

  std::vector<Stage> Plan() const {
    std::vector<Stage> stages = {Main()};
    if (info_.lanes < 2) stages.push_back(TwoLanes());
    if (settings_.variations) {
      for (Stage& stage : Variations()) stages.push_back(std::move(stage));
    }
    return stages;
  }

 private:
  Stage Main() const;
  Stage TwoLanes() const;
  std::vector<Stage> Variations() const;
  bool HasRows() const { return info_.shape.HasKv() || info_.shape.HasWindow(); }
  // Groups that need two lanes.
  void AddShared(std::vector<Work>& work) const;
  Stage Reduced(std::string label, const runtime::RuntimeOptions& runtime) const;

  const Settings& settings_;
  const runtime::RuntimeInfo info_;
  runtime::RuntimeOptions base_;
};

void Planner::AddShared(std::vector<Work>& work) const {
  for (const Scenario scenario : kAllScenarios) work.push_back(CopyWork(scenario));
  for (const Exactness exactness : settings_.exactness)
    work.push_back(ExactWork("interleaved lanes", InterleavedRows, exactness));
}

Stage Planner::Main() const {
  Stage stage{"", base_, {}};
  std::vector<Work>& work = stage.work;
  work.push_back({"single steps", SingleStepRows});
  work.push_back({"state round trips", RoundTripRows});
  for (const Exactness exactness : settings_.exactness) {
    work.push_back(ExactWork("engine steps", EngineStepRows, exactness));
    work.push_back(ExactWork("continuations", ContinuationRows, exactness));
  }
  for (const Tier tier : kAllTiers) {
    for (const Scenario scenario : kAllScenarios) {
      for (const Exactness exactness : settings_.exactness)
        work.push_back(TierWork(tier, scenario, exactness));
    }
  }
  if (info_.lanes >= 2) AddShared(work);
  work.push_back({"full_state", FullStateRows});
  if (settings_.variations && !HasRows()) {
    work.push_back({"KV types", [](Arena&) {
                      return One(DoesNotApply(
                          NewRow("variation", "", "KV types, flash attention", Promise::kBoth),
                          "this memory has no rows of attention"));
                    }});
  }
  for (const Exactness exactness : settings_.exactness)
    work.push_back(ExactWork("full context", FullContextRows, exactness));
  return stage;
}

Stage Planner::TwoLanes() const {
  Stage stage{"2 lanes", base_, {}};
  stage.runtime.lanes = 2;
  AddShared(stage.work);
  for (const Exactness exactness : settings_.exactness)
    stage.work.push_back(TierWork(Tier::kHot, Scenario::kUnrelatedBetween, exactness));
  return stage;
}

Stage Planner::Reduced(std::string label, const runtime::RuntimeOptions& runtime) const {
  Stage stage{std::move(label), runtime, {}};
  stage.work.push_back({"state round trips", RoundTripRows});
  for (const Exactness exactness : settings_.exactness) {
    for (const Scenario scenario : {Scenario::kAppend, Scenario::kExactRepeat})
      stage.work.push_back(TierWork(Tier::kHost, scenario, exactness));
    stage.work.push_back(TierWork(Tier::kHot, Scenario::kRewind5, exactness));
    stage.work.push_back(TierWork(Tier::kDecoded, Scenario::kExactRepeat, exactness));
  }
  return stage;
}

std::vector<Stage> Planner::Variations() const {
  std::vector<Stage> stages;
  for (const char* type : {"f16", "q8_0", "q4_0"}) {
    if (!HasRows()) break;
    if (base_.type_k == type && base_.type_v == type) continue;
    runtime::RuntimeOptions types = base_;
    types.type_k = types.type_v = type;
    stages.push_back(Reduced(fmt::format("KV {}", type), types));
  }
  runtime::RuntimeOptions attention = base_;
  attention.flash_attention = !base_.flash_attention;
  if (HasRows()) {
    stages.push_back(Reduced(
        fmt::format("flash attention {}", attention.flash_attention ? "on" : "off"), attention));
  }
  constexpr std::uint32_t kSmallestChunk = 32;
  runtime::RuntimeOptions chunk = base_;
  chunk.chunk = base_.chunk / 2 >= kSmallestChunk ? base_.chunk / 2 : base_.chunk * 2;
  stages.push_back(Reduced(fmt::format("chunk {}", chunk.chunk), chunk));
  if (info_.shape.HasWindow() || base_.swa_full) {
    runtime::RuntimeOptions window = base_;
    window.swa_full = !base_.swa_full;
    stages.push_back(Reduced(fmt::format("swa_full {}", window.swa_full ? "on" : "off"), window));
  }
  return stages;
}

class Certifier {
 public:
  Certifier(Subject& subject, const Settings& settings) : subject_(subject), settings_(settings) {}
  Result<Certificate> Run();

 private:
  void Say(std::string_view next) {
    if (settings_.progress) settings_.progress(done_, total_, next);
  }
  void RunStage(const Stage& stage, Arena& arena);
  void RunVariation(const Stage& stage);
  ArenaOptions Options() const {
    return {settings_.seed, settings_.continued, settings_.page_tokens};
  }

  Subject& subject_;
  const Settings& settings_;
  Certificate certificate_;
  std::size_t done_ = 0;
  std::size_t total_ = 0;
};

void Certifier::RunStage(const Stage& stage, Arena& arena) {
  for (const Work& work : stage.work) {
    Say(stage.label.empty() ? work.name : stage.label + ": " + work.name);
    for (Row& row : work.run(arena)) {
      row.variation = stage.label;
      certificate_.rows.push_back(std::move(row));
    }
    ++done_;
  }
}

void Certifier::RunVariation(const Stage& stage) {
  Result<std::unique_ptr<Arena>> arena = Arena::Make(subject_, stage.runtime, Options());
  if (arena) return RunStage(stage, **arena);
  Row row = NewRow("variation", "", "all", Promise::kBoth);
  row.variation = stage.label;
  certificate_.rows.push_back(DoesNotApply(std::move(row), arena.error().message));
  done_ += stage.work.size();
}

Result<Certificate> Certifier::Run() {
  SKIPPY_TRY(std::unique_ptr<Arena> arena, Arena::Make(subject_, settings_.runtime, Options()));
  certificate_ = BeginCertificate(arena->info(), Mode::kFull, settings_.seed);
  if (certificate_.policy == PayloadPolicy::kOff)
    return Concluded(std::move(certificate_), settings_.exactness);
  const std::vector<Stage> stages = Planner(settings_, arena->info()).Plan();
  for (const Stage& stage : stages) total_ += stage.work.size();
  total_ += settings_.economics ? 1 : 0;
  RunStage(stages.front(), *arena);
  if (settings_.economics) {
    Say("economics");
    SKIPPY_TRY(certificate_.economics,
               MeasureEconomics(*arena, settings_.runtime, settings_.costs));
    ++done_;
  }
  arena.reset();
  for (std::size_t i = 1; i < stages.size(); ++i) RunVariation(stages[i]);
  Say("done");
  return Concluded(std::move(certificate_), settings_.exactness);
}

}  // namespace

Certificate BeginCertificate(const runtime::RuntimeInfo& info, Mode mode, std::uint64_t seed) {
  Certificate certificate;
  certificate.tool = SKIPPY_VERSION;
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  certificate.date.assign(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc));
  certificate.mode = mode;
  certificate.seed = seed;
  certificate.identity = info.identity;
  certificate.shape = info.shape;
  certificate.policy = info.policy;
  certificate.policy_reason = info.policy_reason;
  return certificate;
}

Certificate Concluded(Certificate certificate, const std::vector<Exactness>& tried) {
  for (const Exactness exactness : tried) {
    (exactness == Exactness::kBit ? certificate.bit : certificate.token) =
        Overall(certificate.rows, exactness);
  }
  return certificate;
}

Result<Certificate> Certify(Subject& subject, const Settings& settings) {
  return Certifier(subject, settings).Run();
}

}  // namespace skippy::certify
