// The fake runtime's whole serialised state: end, rows, window, snapshot, one after the other.
#include <cstring>

#include "runtime/fake/fake_runtime.h"

namespace skippy::runtime::fake {
namespace {

std::size_t SizeAt(const MemoryShape& shape, Pos end) {
  const std::uint64_t window_rows = end - shape.WindowBegin(end);
  return sizeof(Pos) + end * shape.kv_row_bytes + window_rows * shape.window_row_bytes +
         shape.snapshot_bytes;
}

}  // namespace

Result<std::vector<std::byte>> FakeRuntime::ExportFullState(SeqId lane) {
  if (lane.value >= lanes_.lanes()) return Err(ErrorCode::kInvalidArgument, "no such lane");
  const LaneState& state = lanes_.state(lane, 0);
  const MemoryShape& shape = info_.shape;
  const Pos end = state.end();
  if (end == 0) return Err(ErrorCode::kInvalidArgument, "the lane is empty");
  std::vector<std::byte> bytes(SizeAt(shape, end));
  std::memcpy(bytes.data(), &end, sizeof end);
  MutableByteSpan rest = MutableByteSpan(bytes).subspan(sizeof end);
  const auto take = [&](std::size_t size) {
    const MutableByteSpan part = rest.first(size);
    rest = rest.subspan(size);
    return part;
  };
  if (shape.HasKv()) state.ExportKv({0, end}, take(end * shape.kv_row_bytes));
  const PosRange window{shape.WindowBegin(end), end};
  if (shape.HasWindow()) state.ExportWindow(window, take(window.size() * shape.window_row_bytes));
  if (shape.HasSnapshot()) state.ExportSnapshot(rest);
  return bytes;
}

Status FakeRuntime::ImportFullState(SeqId lane, ByteSpan state) {
  if (lane.value >= lanes_.lanes()) return Err(ErrorCode::kInvalidArgument, "no such lane");
  LaneState& target = lanes_.state(lane, 0);
  if (target.end() != 0) return Err(ErrorCode::kInvalidArgument, "import into a full lane");
  const MemoryShape& shape = info_.shape;
  Pos end = 0;
  if (state.size() > sizeof end) std::memcpy(&end, state.data(), sizeof end);
  if (end == 0 || end > options_.context || state.size() != SizeAt(shape, end))
    return Err(ErrorCode::kInvalidArgument, "this is no full state of this memory");
  ByteSpan rest = state.subspan(sizeof end);
  const auto slice = [&](Pos begin, std::uint64_t row_bytes) {
    const RowSlice rows{rest.first((end - begin) * row_bytes), end - begin, 0, {begin, end}};
    rest = rest.subspan(rows.block.size());
    return rows;
  };
  if (shape.HasKv()) target.ImportKv(slice(0, shape.kv_row_bytes));
  if (shape.HasWindow()) target.ImportWindow(slice(shape.WindowBegin(end), shape.window_row_bytes));
  if (shape.HasSnapshot()) target.ImportSnapshot(rest);
  target.FinishImport(end);
  return {};
}

}  // namespace skippy::runtime::fake
