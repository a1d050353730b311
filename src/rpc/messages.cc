#include "rpc/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace skippy::rpc {
namespace {

using pipeline::WireFormat;

// Every field is named in the bindings below, so that a new one does not compile until it travels.

v1::Adapter ToMessage(const AdapterIdentity& adapter) {
  const auto& [content, scale] = adapter;
  v1::Adapter message;
  message.set_content(DigestBytes(content));
  message.set_scale(scale);
  return message;
}

Result<AdapterIdentity> FromMessage(const v1::Adapter& message) {
  AdapterIdentity adapter;
  auto& [content, scale] = adapter;
  SKIPPY_TRY(content, DigestOf(message.content(), "an adapter's content"));
  scale = message.scale();
  return adapter;
}

v1::Identity ToMessage(const Identity& identity) {
  const auto& [model, tokenizer, architecture, runtime_build, device, kv_type_k, kv_type_v,
               flash_attention, rope, swa_full, streams, context, chunk, threads, layer_begin,
               layer_end, topology, state_version, adapters] = identity;
  v1::Identity message;
  message.set_model(DigestBytes(model));
  message.set_tokenizer(DigestBytes(tokenizer));
  message.set_architecture(architecture);
  message.set_runtime_build(runtime_build);
  message.set_device(device);
  message.set_kv_type_k(kv_type_k);
  message.set_kv_type_v(kv_type_v);
  message.set_flash_attention(flash_attention);
  message.set_rope(rope);
  message.set_swa_full(swa_full);
  message.set_streams(streams);
  message.set_context(context);
  message.set_chunk(chunk);
  message.set_threads(threads);
  message.set_layer_begin(layer_begin);
  message.set_layer_end(layer_end);
  message.set_topology(topology);
  message.set_state_version(state_version);
  for (const AdapterIdentity& adapter : adapters) *message.add_adapters() = ToMessage(adapter);
  return message;
}

Result<Identity> FromMessage(const v1::Identity& message) {
  Identity identity;
  auto& [model, tokenizer, architecture, runtime_build, device, kv_type_k, kv_type_v,
         flash_attention, rope, swa_full, streams, context, chunk, threads, layer_begin, layer_end,
         topology, state_version, adapters] = identity;
  SKIPPY_TRY(model, DigestOf(message.model(), "the identity's model"));
  SKIPPY_TRY(tokenizer, DigestOf(message.tokenizer(), "the identity's tokenizer"));
  architecture = message.architecture();
  runtime_build = message.runtime_build();
  device = message.device();
  kv_type_k = message.kv_type_k();
  kv_type_v = message.kv_type_v();
  flash_attention = message.flash_attention();
  rope = message.rope();
  swa_full = message.swa_full();
  streams = message.streams();
  context = message.context();
  chunk = message.chunk();
  threads = message.threads();
  layer_begin = message.layer_begin();
  layer_end = message.layer_end();
  topology = message.topology();
  state_version = message.state_version();
  for (const v1::Adapter& adapter : message.adapters()) {
    SKIPPY_TRY(AdapterIdentity one, FromMessage(adapter));
    adapters.push_back(one);
  }
  return identity;
}

v1::MemoryShape ToMessage(const MemoryShape& shape) {
  const auto& [kv_row_bytes, window_row_bytes, window_tokens, snapshot_bytes, logits_bytes] = shape;
  v1::MemoryShape message;
  message.set_kv_row_bytes(kv_row_bytes);
  message.set_window_row_bytes(window_row_bytes);
  message.set_window_tokens(window_tokens);
  message.set_snapshot_bytes(snapshot_bytes);
  message.set_logits_bytes(logits_bytes);
  return message;
}

MemoryShape FromMessage(const v1::MemoryShape& message) {
  MemoryShape shape;
  auto& [kv_row_bytes, window_row_bytes, window_tokens, snapshot_bytes, logits_bytes] = shape;
  kv_row_bytes = message.kv_row_bytes();
  window_row_bytes = message.window_row_bytes();
  window_tokens = message.window_tokens();
  snapshot_bytes = message.snapshot_bytes();
  logits_bytes = message.logits_bytes();
  return shape;
}

v1::PosRange ToMessage(PosRange range) {
  v1::PosRange message;
  message.set_begin(range.begin);
  message.set_end(range.end);
  return message;
}

Result<PosRange> FromMessage(const v1::PosRange& message, std::uint32_t context) {
  if (message.begin() > message.end() || message.end() > context)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("positions {}..{} are no range within a context of {}", message.begin(),
                           message.end(), context));
  return PosRange{message.begin(), message.end()};
}

}  // namespace

std::string DigestBytes(const Digest& digest) { return {digest.bytes.begin(), digest.bytes.end()}; }

Result<Digest> DigestOf(const std::string& bytes, std::string_view what) {
  Digest digest;
  if (bytes.size() != digest.bytes.size())
    return Err(ErrorCode::kInvalidArgument, fmt::format("{}: a digest of {} bytes, not {}", what,
                                                        bytes.size(), digest.bytes.size()));
  std::copy(bytes.begin(), bytes.end(), digest.bytes.begin());
  return digest;
}

Status CheckSchema(std::string_view who, std::uint32_t version) {
  if (version == kSchemaVersion) return {};
  return Err(
      ErrorCode::kUnsupported,
      fmt::format("{} speaks version {} of the protocol between stages, this program version "
                  "{}: install the same release on all machines",
                  who, version, kSchemaVersion));
}

v1::LayerRange ToMessage(pipeline::LayerRange range) {
  const auto& [begin, end] = range;
  v1::LayerRange message;
  message.set_begin(begin);
  message.set_end(end);
  return message;
}

Result<pipeline::LayerRange> FromMessage(const v1::LayerRange& message) {
  if (message.begin() >= message.end())
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("{}..{} is no range of layers", message.begin(), message.end()));
  return pipeline::LayerRange{message.begin(), message.end()};
}

v1::LanePlace ToMessage(pipeline::LanePlace place) {
  const auto& [end, window_from] = place;
  v1::LanePlace message;
  message.set_end(end);
  message.set_window_from(window_from);
  return message;
}

pipeline::LanePlace FromMessage(const v1::LanePlace& message) {
  return {message.end(), message.window_from()};
}

v1::PieceKey ToMessage(const pipeline::PieceKey& key) {
  const auto& [name, component, positions] = key;
  v1::PieceKey message;
  message.set_name(DigestBytes(name));
  message.set_component(static_cast<v1::Component>(component));
  *message.mutable_positions() = ToMessage(positions);
  return message;
}

Result<pipeline::PieceKey> FromMessage(const v1::PieceKey& message, std::uint32_t context) {
  pipeline::PieceKey key;
  SKIPPY_TRY(key.name, DigestOf(message.name(), "a piece's name"));
  if (!v1::Component_IsValid(message.component()))
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("a piece of component {}; there are 0 (kv), 1 (window), 2 (snapshot)",
                           static_cast<int>(message.component())));
  key.component = static_cast<Component>(message.component());
  SKIPPY_TRY(key.positions, FromMessage(message.positions(), context));
  return key;
}

v1::PieceSlice ToMessage(const pipeline::PieceSlice& slice) {
  const auto& [piece, positions] = slice;
  v1::PieceSlice message;
  *message.mutable_piece() = ToMessage(piece);
  *message.mutable_positions() = ToMessage(positions);
  return message;
}

Result<pipeline::PieceSlice> FromMessage(const v1::PieceSlice& message, std::uint32_t context) {
  pipeline::PieceSlice slice;
  SKIPPY_TRY(slice.piece, FromMessage(message.piece(), context));
  SKIPPY_TRY(slice.positions, FromMessage(message.positions(), context));
  const PosRange whole = slice.piece.positions;
  if (slice.positions.begin < whole.begin || slice.positions.end > whole.end)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("positions {}..{} of a piece that has {}..{}", slice.positions.begin,
                           slice.positions.end, whole.begin, whole.end));
  return slice;
}

v1::Package ToMessage(const pipeline::StagePackage& package) {
  const auto& [model, model_name, architecture, model_layers, layers, dummies_in_front] = package;
  v1::Package message;
  message.set_model(DigestBytes(model));
  message.set_model_name(model_name);
  message.set_architecture(architecture);
  message.set_model_layers(model_layers);
  *message.mutable_layers() = ToMessage(layers);
  message.set_dummies_in_front(dummies_in_front);
  return message;
}

Result<pipeline::StagePackage> FromMessage(const v1::Package& message) {
  pipeline::StagePackage package;
  auto& [model, model_name, architecture, model_layers, layers, dummies_in_front] = package;
  SKIPPY_TRY(model, DigestOf(message.model(), "the package's model"));
  model_name = message.model_name();
  architecture = message.architecture();
  model_layers = message.model_layers();
  SKIPPY_TRY(layers, FromMessage(message.layers()));
  dummies_in_front = message.dummies_in_front();
  return package;
}

v1::RuntimeInfo ToMessage(const runtime::RuntimeInfo& info) {
  const auto& [shape, policy, policy_reason, lanes, context, chunk, vocab, identity] = info;
  v1::RuntimeInfo message;
  *message.mutable_shape() = ToMessage(shape);
  message.set_policy(static_cast<v1::PayloadPolicy>(policy));
  message.set_policy_reason(policy_reason);
  message.set_lanes(lanes);
  message.set_context(context);
  message.set_chunk(chunk);
  message.set_vocab(vocab);
  *message.mutable_identity() = ToMessage(identity);
  return message;
}

Result<runtime::RuntimeInfo> FromMessage(const v1::RuntimeInfo& message) {
  runtime::RuntimeInfo info;
  auto& [shape, policy, policy_reason, lanes, context, chunk, vocab, identity] = info;
  shape = FromMessage(message.shape());
  if (!v1::PayloadPolicy_IsValid(message.policy()))
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("unknown payload policy {}", static_cast<int>(message.policy())));
  policy = static_cast<PayloadPolicy>(message.policy());
  policy_reason = message.policy_reason();
  lanes = message.lanes();
  context = message.context();
  chunk = message.chunk();
  vocab = message.vocab();
  SKIPPY_TRY(identity, FromMessage(message.identity()));
  return info;
}

v1::StageDescription ToMessage(const pipeline::StageDescription& description) {
  const auto& [package, info, input_width, output_width, session] = description;
  v1::StageDescription message;
  *message.mutable_package() = ToMessage(package);
  *message.mutable_info() = ToMessage(info);
  message.set_input_width(input_width);
  message.set_output_width(output_width);
  message.set_session(session);
  return message;
}

Result<pipeline::StageDescription> FromMessage(const v1::StageDescription& message) {
  pipeline::StageDescription description;
  auto& [package, info, input_width, output_width, session] = description;
  SKIPPY_TRY(package, FromMessage(message.package()));
  SKIPPY_TRY(info, FromMessage(message.info()));
  input_width = message.input_width();
  output_width = message.output_width();
  session = message.session();
  return description;
}

v1::WireFormat ToMessage(WireFormat wire) { return static_cast<v1::WireFormat>(wire); }

Result<WireFormat> FromMessage(v1::WireFormat wire) {
  if (!v1::WireFormat_IsValid(wire))
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("unknown wire format {}; there are 0 (f32), 1 (bf16), 2 (f16), 3 (int8)",
                           static_cast<int>(wire)));
  return static_cast<WireFormat>(wire);
}

static_assert(static_cast<int>(Component::kKv) == v1::COMPONENT_KV &&
              static_cast<int>(Component::kWindow) == v1::COMPONENT_WINDOW &&
              static_cast<int>(Component::kSnapshot) == v1::COMPONENT_SNAPSHOT);
static_assert(static_cast<int>(PayloadPolicy::kOff) == v1::PAYLOAD_POLICY_OFF &&
              static_cast<int>(PayloadPolicy::kResidentKv) == v1::PAYLOAD_POLICY_RESIDENT_KV &&
              static_cast<int>(PayloadPolicy::kKvRecurrent) == v1::PAYLOAD_POLICY_KV_RECURRENT &&
              static_cast<int>(PayloadPolicy::kFullState) == v1::PAYLOAD_POLICY_FULL_STATE);
static_assert(static_cast<int>(WireFormat::kF32) == v1::WIRE_FORMAT_F32 &&
              static_cast<int>(WireFormat::kBf16) == v1::WIRE_FORMAT_BF16 &&
              static_cast<int>(WireFormat::kF16) == v1::WIRE_FORMAT_F16 &&
              static_cast<int>(WireFormat::kInt8) == v1::WIRE_FORMAT_INT8);

Result<std::string> PackRows(WireFormat wire, std::span<const float> rows, std::uint32_t width) {
  // f32 lies in memory as it travels: one copy less.
  if (wire == WireFormat::kF32 && width > 0 && rows.size() % width == 0) return PackLogits(rows);
  SKIPPY_TRY(const std::vector<std::byte> bytes, pipeline::Encode(wire, rows, width));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<std::vector<float>> UnpackRows(WireFormat wire, const std::string& bytes,
                                      std::uint32_t width) {
  return pipeline::Decode(wire, std::as_bytes(std::span(bytes)), width);
}

std::string PackLogits(std::span<const float> logits) {
  return {reinterpret_cast<const char*>(logits.data()), logits.size_bytes()};
}

Result<std::vector<float>> UnpackLogits(const std::string& bytes) {
  if (bytes.size() % sizeof(float) != 0)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("logits of {} bytes are no whole floats", bytes.size()));
  std::vector<float> logits(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(logits.data(), bytes.data(), bytes.size());
  return logits;
}

}  // namespace skippy::rpc
