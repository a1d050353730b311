#include "skippy/memory_shape.h"

namespace skippy {

std::string_view PayloadPolicyName(PayloadPolicy policy) {
  switch (policy) {
    case PayloadPolicy::kOff: return "off";
    case PayloadPolicy::kResidentKv: return "resident_kv";
    case PayloadPolicy::kKvRecurrent: return "kv_recurrent";
    case PayloadPolicy::kFullState: return "full_state";
  }
  return "unknown";
}

}  // namespace skippy
