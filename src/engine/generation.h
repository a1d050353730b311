// Generation: samples tokens and evaluates them, one step of all generating runs at a time.
//
// Runs with the same adapters share a forward pass; in the bit-exact setting each decodes alone,
// because the composition of a batch changes low bits. When a shared pass fails, nobody's state is
// known: each of its runs gets its lane rebuilt and its next step alone, and only the one that
// fails again ends with an error.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/admission.h"
#include "engine/core.h"
#include "engine/recorder.h"

namespace skippy::engine {

class Generation {
 public:
  // How a run ended, or nothing: it goes on.
  struct End {
    FinishReason reason = FinishReason::kStop;
    std::optional<Error> error;
  };
  using OnEnd = std::function<void(Run&, End)>;

  Generation(Core& core, Admission& admission, Recorder& recorder)
      : core_(core), admission_(admission), recorder_(recorder) {}

  // Samples from `logits`, tells the sink. The token becomes the last of run.text, not yet
  // evaluated.
  std::optional<End> Emit(Run& run, std::span<const float> logits);

  // One step of every given run (all in kGenerate). `on_end` is called for those that end.
  void Step(std::span<Run* const> runs, const OnEnd& on_end);

 private:
  void StepGroup(std::span<Run* const> group, const OnEnd& on_end);
  void AfterFailure(std::span<Run* const> group, const Error& error, const OnEnd& on_end);
  std::optional<End> AfterStep(Run& run, std::size_t item);

  Core& core_;
  Admission& admission_;
  Recorder& recorder_;
};

}  // namespace skippy::engine
