#include "runtime/fake/fake_faults.h"

#include "runtime/fake/fake_state.h"

namespace skippy::runtime::fake {
namespace {

const FaultPlan::Trigger& TriggerOf(const FaultPlan& plan, Fault fault) {
  switch (fault) {
    case Fault::kDecode: return plan.fail_decode;
    case Fault::kNan: return plan.nan_decode;
    case Fault::kImport: return plan.fail_import;
    case Fault::kLie: return plan.lie_import;
    case Fault::kExport: break;
  }
  return plan.fail_export;
}

}  // namespace

bool Fires(const FaultPlan& plan, Fault fault, std::uint64_t call) {
  const FaultPlan::Trigger& trigger = TriggerOf(plan, fault);
  const bool by_chance =
      trigger.permille > 0 &&
      Mix(Mix(plan.seed, static_cast<std::uint64_t>(fault)), call) % 1000 < trigger.permille;
  return by_chance || trigger.calls.contains(call);
}

}  // namespace skippy::runtime::fake
