#include "cli/stages_flags.h"

#include <fmt/format.h>

#include <optional>

#include "cli/flag_values.h"

namespace skippy::cli {

CLI::Option* StagesFlags::Add(CLI::Option* option) {
  others_.push_back(option);
  return option->group("Model in stages");
}

void StagesFlags::AddTo(CLI::App& app, StagesSetup& setup) {
  option_ = app.add_option("--stages", stages_,
                           "addresses of the stages that have the model's layers, host:port, "
                           "comma-separated, in any order; host:port/0..20 is one of several there")
                ->group("Model in stages");
  Add(app.add_option("--stage-secret-file", secret_file_,
                     "file with the secret that the stages ask for"));
  Add(app.add_option("--stage-ca", setup.ca_file,
                     "PEM certificates that the stages' must be signed by; without it nothing is "
                     "encrypted"));
  Add(app.add_option("--stage-timeout", setup.timeout_seconds,
                     "seconds that a stage may take for a step before it counts as gone"))
      ->check(CLI::Range(1L, 86400L));
  Add(app.add_option("--stage-wire", wire_,
                     "how activations travel: f32 (exact), bf16, f16 or int8 (answers are then "
                     "not those of the whole model)"))
      ->check(CLI::IsMember({"f32", "bf16", "f16", "int8"}));
  Add(app.add_option("--stage-activations", setup.activations_mib,
                     "MiB of memory here for what left each stage, from which a stage that lost "
                     "its state computes it again alone; 0: none"))
      ->check(CLI::Range(0L, 1073741824L));
}

Status StagesFlags::Resolve(StagesSetup& setup) const {
  setup.addresses = SplitOn(stages_, ',');
  if (!setup.on() && option_->count() > 0)
    return Err(ErrorCode::kInvalidArgument, fmt::format("--stages: '{}' names no stage", stages_));
  if (!setup.on()) {
    for (const CLI::Option* option : others_)
      if (option->count() > 0)
        return Err(ErrorCode::kInvalidArgument,
                   fmt::format("--{} means nothing without --stages ADDRESS,ADDRESS,...",
                               option->get_lnames().front()));
    return {};
  }
  setup.wire = pipeline::ParseWire(wire_).value_or(pipeline::WireFormat::kF32);
  if (secret_file_.empty()) return {};
  SKIPPY_TRY(setup.secret, ReadSecret("--stage-secret-file", secret_file_));
  return {};
}

}  // namespace skippy::cli
