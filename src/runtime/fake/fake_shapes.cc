#include "runtime/fake/fake_shapes.h"

namespace skippy::runtime::fake {

std::string_view ShapeKindName(ShapeKind kind) {
  switch (kind) {
    case ShapeKind::kAttention: return "attention";
    case ShapeKind::kMla: return "mla";
    case ShapeKind::kWindow: return "window";
    case ShapeKind::kWindowOnly: return "window_only";
    case ShapeKind::kRecurrent: return "recurrent";
    case ShapeKind::kHybrid: return "hybrid";
    case ShapeKind::kHybridWindow: return "hybrid_window";
  }
  return "unknown";
}

StateLayout LayoutOf(ShapeKind kind, std::uint32_t window_tokens, std::uint32_t chunk) {
  StateLayout layout;
  switch (kind) {
    case ShapeKind::kAttention: layout.kv.tensor_bytes = {8, 8, 6, 6}; break;
    case ShapeKind::kMla: layout.kv.tensor_bytes = {6}; break;
    case ShapeKind::kWindow:
      layout.kv.tensor_bytes = {8, 6};
      layout.window.tensor_bytes = {8, 6};
      break;
    case ShapeKind::kWindowOnly: layout.window.tensor_bytes = {10, 6}; break;
    case ShapeKind::kRecurrent: layout.snapshot_bytes = 40; break;
    case ShapeKind::kHybrid:
      layout.kv.tensor_bytes = {8, 6};
      layout.snapshot_bytes = 40;
      break;
    case ShapeKind::kHybridWindow:
      layout.kv.tensor_bytes = {8};
      layout.window.tensor_bytes = {6, 6};
      layout.snapshot_bytes = 24;
      break;
  }
  if (!layout.window.tensor_bytes.empty()) {
    layout.window_tokens = window_tokens;
    layout.ring_rows = window_tokens + chunk;
  }
  return layout;
}

}  // namespace skippy::runtime::fake
