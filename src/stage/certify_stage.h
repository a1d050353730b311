// Evidence for one stage alone: what its cache brings back gives what computing gives.
//
// Lanes:
//   state round trip       exported, imported into a fresh context, exported again: the same bytes
//   restore and suffix     behind an imported prefix, the bits that an uninterrupted run gives
//   continuation           the same token by token
//   repeat                 the whole run again: the same bits (else no lane says anything)
//   output head            last stages: the above compared logits
//   q8_wire_validation     the input over the int8 wire; untested unless asked for. It has no
//   limit:
//                          its difference is told beside that of an input changed by one ulp
// and the time that a restore takes against computing the prefix, one more token each.
//
// Threads: single-threaded. Errors: those of the runtime and of loading; a lane that fails is no
// error. Cost: five prefills of prefix + suffix + steps, and `rounds` of the timing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/runtime_options.h"
#include "skippy/result.h"
#include "stage/manifest.h"
#include "stage/stage_inputs.h"

namespace skippy::stage {

struct StageCertifyOptions {
  std::string package;                // the stage's folder
  std::string vocabulary;             // empty: synthetic input
  std::vector<std::string> upstream;  // folders of the stages before it
  Pos prefix = 128;
  Pos suffix = 40;
  Pos steps = 16;
  std::uint32_t rounds = 9;
  bool q8_wire = false;
  runtime::RuntimeOptions runtime = {.context = 512, .chunk = 64, .threads = 1};
};

enum class LaneVerdict : std::uint8_t { kPassed, kFailed, kUntested };
std::string_view LaneVerdictName(LaneVerdict verdict);  // "passed", "failed", "untested"

struct LaneEvidence {
  std::string name;
  LaneVerdict verdict = LaneVerdict::kUntested;
  std::string detail;
};

struct StageCertificate {
  Manifest package;
  std::string runtime_build;
  InputKind input = InputKind::kSynthetic;
  std::string input_description;
  Pos prefix = 0;
  std::vector<LaneEvidence> lanes;
  std::uint64_t state_bytes = 0;     // of the prefix
  std::vector<double> recompute_ms;  // prefix and one more token, a round each
  std::vector<double> restore_ms;    // import and one more token
  bool Passed() const;               // no lane failed; untested ones do not count
};

Result<StageCertificate> CertifyStage(const StageCertifyOptions& options);

std::string ToJson(const StageCertificate& certificate);
std::string ToText(const StageCertificate& certificate);

}  // namespace skippy::stage
