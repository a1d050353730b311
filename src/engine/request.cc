#include "engine/request.h"

namespace skippy::engine {

std::string_view HitKindName(HitKind kind) {
  switch (kind) {
    case HitKind::kNone: return "none";
    case HitKind::kDecodedResult: return "decoded_result";
    case HitKind::kHot: return "hot";
    case HitKind::kWarm: return "warm";
  }
  return "unknown";
}

}  // namespace skippy::engine
