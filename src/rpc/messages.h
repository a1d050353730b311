// Between our types and the messages of stage.proto. What comes from the wire is checked for sizes
// and ranges here, so that nothing behind it meets a value that its type does not have.
//
// Threads: pure functions. Errors: kInvalidArgument, naming the field.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/stage_link.h"
#include "pipeline/wire.h"
#include "runtime/runtime.h"
#include "skippy/result.h"
#include "stage.pb.h"

namespace skippy::rpc {

namespace v1 = ::skippy::stage::v1;

// Raised when an older side would misunderstand a message.
inline constexpr std::uint32_t kSchemaVersion = 1;
// kUnsupported: another one. `who`: whose it is.
Status CheckSchema(std::string_view who, std::uint32_t version);

v1::LayerRange ToMessage(pipeline::LayerRange range);
v1::LanePlace ToMessage(pipeline::LanePlace place);
v1::PieceKey ToMessage(const pipeline::PieceKey& key);
v1::PieceSlice ToMessage(const pipeline::PieceSlice& slice);
v1::Package ToMessage(const pipeline::StagePackage& package);
v1::RuntimeInfo ToMessage(const runtime::RuntimeInfo& info);
v1::StageDescription ToMessage(const pipeline::StageDescription& description);
v1::WireFormat ToMessage(pipeline::WireFormat wire);

std::string DigestBytes(const Digest& digest);
// `what`: names the field.
Result<Digest> DigestOf(const std::string& bytes, std::string_view what);
Result<pipeline::LayerRange> FromMessage(const v1::LayerRange& message);
pipeline::LanePlace FromMessage(const v1::LanePlace& message);
// Positions of pieces are at most `context`.
Result<pipeline::PieceKey> FromMessage(const v1::PieceKey& message, std::uint32_t context);
Result<pipeline::PieceSlice> FromMessage(const v1::PieceSlice& message, std::uint32_t context);
Result<pipeline::StagePackage> FromMessage(const v1::Package& message);
Result<runtime::RuntimeInfo> FromMessage(const v1::RuntimeInfo& message);
Result<pipeline::StageDescription> FromMessage(const v1::StageDescription& message);
Result<pipeline::WireFormat> FromMessage(v1::WireFormat wire);

// Rows and logits as `bytes`.
Result<std::string> PackRows(pipeline::WireFormat wire, std::span<const float> rows,
                             std::uint32_t width);
Result<std::vector<float>> UnpackRows(pipeline::WireFormat wire, const std::string& bytes,
                                      std::uint32_t width);
std::string PackLogits(std::span<const float> logits);
Result<std::vector<float>> UnpackLogits(const std::string& bytes);

}  // namespace skippy::rpc
