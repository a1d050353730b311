// The certificate as JSON. The only file of this folder that knows the JSON library.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "certify/certificate.h"

namespace skippy::certify {
namespace {

using nlohmann::json;

constexpr int kHexDigits = 64;

// JSON has no infinity: null stands for it.
json Number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }
double NumberOf(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::infinity() : value.get<double>();
}

json OfIdentity(const Identity& identity) {
  json adapters = json::array();
  for (const AdapterIdentity& adapter : identity.adapters)
    adapters.push_back({{"content", adapter.content.Hex()}, {"scale", adapter.scale}});
  return {{"digest", IdentityDigest(identity).Hex()},
          {"version", kIdentityVersion},
          {"model", identity.model.Hex()},
          {"tokenizer", identity.tokenizer.Hex()},
          {"architecture", identity.architecture},
          {"runtime_build", identity.runtime_build},
          {"device", identity.device},
          {"kv_type_k", identity.kv_type_k},
          {"kv_type_v", identity.kv_type_v},
          {"flash_attention", identity.flash_attention},
          {"rope", identity.rope},
          {"swa_full", identity.swa_full},
          {"streams", identity.streams},
          {"context", identity.context},
          {"chunk", identity.chunk},
          {"threads", identity.threads},
          {"layer_begin", identity.layer_begin},
          {"layer_end", identity.layer_end},
          {"topology", identity.topology},
          {"state_version", identity.state_version},
          {"adapters", std::move(adapters)}};
}

json OfRow(const Row& row) {
  json object = {{"group", row.group},
                 {"tier", row.tier},
                 {"scenario", row.scenario},
                 {"variation", row.variation},
                 {"promise", PromiseName(row.promise)},
                 {"reference", row.reference},
                 {"verdict", VerdictName(row.verdict)},
                 {"reason", row.reason},
                 {"largest_difference", Number(row.largest_difference)},
                 {"smallest_margin", Number(row.smallest_margin)},
                 {"tie", row.tie},
                 {"compared", row.compared},
                 {"prompt_tokens", row.prompt_tokens},
                 {"cached_tokens", row.cached_tokens},
                 {"evaluated_tokens", row.evaluated_tokens}};
  object["first_difference"] = row.first_difference ? json(*row.first_difference) : json(nullptr);
  return object;
}

json OfEconomics(const Economics& economics) {
  json points = json::array();
  for (const CostPoint& point : economics.points) {
    points.push_back({{"tokens", point.tokens},
                      {"measured", point.measured},
                      {"bytes", point.bytes},
                      {"restore_ms", Number(point.restore_ms)},
                      {"recompute_ms", Number(point.recompute_ms)},
                      {"restore_gb_s", Number(point.restore_gb_s)},
                      {"memcpy_gb_s", Number(point.memcpy_gb_s)}});
  }
  return {{"kv_bytes_per_token", economics.kv_bytes_per_token},
          {"window_bytes_per_token", economics.window_bytes_per_token},
          {"window_tokens", economics.window_tokens},
          {"snapshot_bytes", economics.snapshot_bytes},
          {"logits_bytes", economics.logits_bytes},
          {"expanded_bytes_per_token", economics.expanded_bytes_per_token},
          {"points", std::move(points)},
          {"break_even_tokens",
           economics.break_even_tokens ? json(*economics.break_even_tokens) : json(nullptr)}};
}

json OfShape(const Certificate& certificate) {
  const MemoryShape& shape = certificate.shape;
  return {{"policy", PayloadPolicyName(certificate.policy)},
          {"policy_reason", certificate.policy_reason},
          {"kv_row_bytes", shape.kv_row_bytes},
          {"window_row_bytes", shape.window_row_bytes},
          {"window_tokens", shape.window_tokens},
          {"snapshot_bytes", shape.snapshot_bytes},
          {"logits_bytes", shape.logits_bytes}};
}

std::string Checksum(const json& without_checksum) {
  const std::string text = without_checksum.dump(-1, ' ', true, json::error_handler_t::replace);
  return Blake3(std::as_bytes(std::span(text.data(), text.size()))).Hex();
}

// Reading. Anything missing or of the wrong kind throws a json exception; Parse catches it.

struct BadField {
  std::string what;
};

Digest ReadDigest(const json& value) {
  const std::string hex = value.get<std::string>();
  Digest digest;
  if (hex.size() != kHexDigits) throw BadField{"a digest has not 64 digits"};
  for (std::size_t i = 0; i < digest.bytes.size(); ++i) {
    const auto nibble = [&](char c) -> unsigned {
      if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
      if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
      throw BadField{"a digest has a digit that is not hexadecimal"};
    };
    digest.bytes[i] = static_cast<std::uint8_t>(nibble(hex[2 * i]) * 16 + nibble(hex[2 * i + 1]));
  }
  return digest;
}

template <class T>
void Read(const json& object, const char* key, T& field) {
  field = object.at(key).get<T>();
}

Identity ReadIdentity(const json& object) {
  Identity identity;
  identity.model = ReadDigest(object.at("model"));
  identity.tokenizer = ReadDigest(object.at("tokenizer"));
  Read(object, "architecture", identity.architecture);
  Read(object, "runtime_build", identity.runtime_build);
  Read(object, "device", identity.device);
  Read(object, "kv_type_k", identity.kv_type_k);
  Read(object, "kv_type_v", identity.kv_type_v);
  Read(object, "flash_attention", identity.flash_attention);
  Read(object, "rope", identity.rope);
  Read(object, "swa_full", identity.swa_full);
  Read(object, "streams", identity.streams);
  Read(object, "context", identity.context);
  Read(object, "chunk", identity.chunk);
  Read(object, "threads", identity.threads);
  Read(object, "layer_begin", identity.layer_begin);
  Read(object, "layer_end", identity.layer_end);
  Read(object, "topology", identity.topology);
  Read(object, "state_version", identity.state_version);
  for (const json& adapter : object.at("adapters")) {
    identity.adapters.push_back(
        {ReadDigest(adapter.at("content")), adapter.at("scale").get<float>()});
  }
  if (object.at("version").get<std::uint32_t>() != kIdentityVersion ||
      ReadDigest(object.at("digest")) != IdentityDigest(identity))
    throw BadField{"the identity's digest is not that of its fields"};
  return identity;
}

template <class T>
T Word(const std::optional<T>& word, const json& value) {
  if (!word) throw BadField{"unknown word " + value.dump()};
  return *word;
}

Verdict ReadVerdict(const json& value) {
  return Word(ParseVerdict(value.get<std::string>()), value);
}

Row ReadRow(const json& object) {
  Row row;
  Read(object, "group", row.group);
  Read(object, "tier", row.tier);
  Read(object, "scenario", row.scenario);
  Read(object, "variation", row.variation);
  const json& promise = object.at("promise");
  row.promise = Word(ParsePromise(promise.get<std::string>()), promise);
  Read(object, "reference", row.reference);
  row.verdict = ReadVerdict(object.at("verdict"));
  Read(object, "reason", row.reason);
  row.largest_difference = NumberOf(object.at("largest_difference"));
  row.smallest_margin = NumberOf(object.at("smallest_margin"));
  Read(object, "tie", row.tie);
  Read(object, "compared", row.compared);
  Read(object, "prompt_tokens", row.prompt_tokens);
  Read(object, "cached_tokens", row.cached_tokens);
  Read(object, "evaluated_tokens", row.evaluated_tokens);
  if (const json& first = object.at("first_difference"); !first.is_null())
    row.first_difference = first.get<std::uint64_t>();
  return row;
}

Economics ReadEconomics(const json& object) {
  Economics economics;
  Read(object, "kv_bytes_per_token", economics.kv_bytes_per_token);
  Read(object, "window_bytes_per_token", economics.window_bytes_per_token);
  Read(object, "window_tokens", economics.window_tokens);
  Read(object, "snapshot_bytes", economics.snapshot_bytes);
  Read(object, "logits_bytes", economics.logits_bytes);
  Read(object, "expanded_bytes_per_token", economics.expanded_bytes_per_token);
  for (const json& value : object.at("points")) {
    CostPoint point;
    Read(value, "tokens", point.tokens);
    Read(value, "measured", point.measured);
    Read(value, "bytes", point.bytes);
    point.restore_ms = NumberOf(value.at("restore_ms"));
    point.recompute_ms = NumberOf(value.at("recompute_ms"));
    point.restore_gb_s = NumberOf(value.at("restore_gb_s"));
    point.memcpy_gb_s = NumberOf(value.at("memcpy_gb_s"));
    economics.points.push_back(point);
  }
  if (const json& even = object.at("break_even_tokens"); !even.is_null())
    economics.break_even_tokens = even.get<Pos>();
  return economics;
}

PayloadPolicy ReadPolicy(const json& value) {
  for (const auto policy : {PayloadPolicy::kOff, PayloadPolicy::kResidentKv,
                            PayloadPolicy::kKvRecurrent, PayloadPolicy::kFullState}) {
    if (PayloadPolicyName(policy) == value.get<std::string>()) return policy;
  }
  throw BadField{"unknown policy " + value.dump()};
}

Certificate ReadCertificate(const json& object) {
  Certificate certificate;
  Read(object, "tool", certificate.tool);
  Read(object, "date", certificate.date);
  const std::string mode = object.at("mode").get<std::string>();
  if (mode != ModeName(Mode::kFull) && mode != ModeName(Mode::kQuick))
    throw BadField{"unknown mode '" + mode + "'"};
  certificate.mode = mode == ModeName(Mode::kQuick) ? Mode::kQuick : Mode::kFull;
  Read(object, "seed", certificate.seed);
  certificate.identity = ReadIdentity(object.at("identity"));
  const json& memory = object.at("memory");
  certificate.policy = ReadPolicy(memory.at("policy"));
  Read(memory, "policy_reason", certificate.policy_reason);
  Read(memory, "kv_row_bytes", certificate.shape.kv_row_bytes);
  Read(memory, "window_row_bytes", certificate.shape.window_row_bytes);
  Read(memory, "window_tokens", certificate.shape.window_tokens);
  Read(memory, "snapshot_bytes", certificate.shape.snapshot_bytes);
  Read(memory, "logits_bytes", certificate.shape.logits_bytes);
  const json& verdicts = object.at("verdicts");
  if (const json& bit = verdicts.at("bit"); !bit.is_null()) certificate.bit = ReadVerdict(bit);
  if (const json& token = verdicts.at("token"); !token.is_null())
    certificate.token = ReadVerdict(token);
  for (const json& row : object.at("rows")) certificate.rows.push_back(ReadRow(row));
  if (const json& economics = object.at("economics"); !economics.is_null())
    certificate.economics = ReadEconomics(economics);
  return certificate;
}

Result<json> ReadJson(std::string_view text) {
  json object = json::parse(text, nullptr, false);
  if (object.is_discarded())
    return Err(ErrorCode::kCorruption, "the certificate is damaged: it is not JSON");
  if (!object.is_object() || !object.contains("schema") || object["schema"] != kCertificateSchema)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("not a certificate: no schema '{}'", kCertificateSchema));
  if (!object.contains("version") || object["version"] != kCertificateVersion) {
    return Err(ErrorCode::kUnsupported,
               fmt::format("the certificate has schema version {}, this program reads version {}",
                           object.contains("version") ? object["version"].dump() : "(none)",
                           kCertificateVersion));
  }
  return object;
}

}  // namespace

std::string Write(const Certificate& certificate) {
  const auto word = [](const std::optional<Verdict>& verdict) {
    return verdict ? json(VerdictName(*verdict)) : json(nullptr);
  };
  json rows = json::array();
  for (const Row& row : certificate.rows) rows.push_back(OfRow(row));
  json object = {
      {"schema", kCertificateSchema},
      {"version", kCertificateVersion},
      {"tool", certificate.tool},
      {"date", certificate.date},
      {"mode", ModeName(certificate.mode)},
      {"seed", certificate.seed},
      {"identity", OfIdentity(certificate.identity)},
      {"memory", OfShape(certificate)},
      {"verdicts", {{"bit", word(certificate.bit)}, {"token", word(certificate.token)}}},
      {"rows", std::move(rows)},
      {"economics", certificate.economics ? OfEconomics(*certificate.economics) : json(nullptr)}};
  object["checksum"] = Checksum(object);
  return object.dump(1, ' ', true, json::error_handler_t::replace) + "\n";
}

Result<Certificate> Parse(std::string_view text) try {
  SKIPPY_TRY(json object, ReadJson(text));
  const std::string checksum = object.value("checksum", "");
  object.erase("checksum");
  if (checksum != Checksum(object))
    return Err(ErrorCode::kCorruption, "the certificate is damaged: its checksum does not match");
  return ReadCertificate(object);
} catch (const json::exception& error) {
  return Err(ErrorCode::kCorruption, fmt::format("the certificate is damaged: {}", error.what()));
} catch (const BadField& field) {
  return Err(ErrorCode::kCorruption, fmt::format("the certificate is damaged: {}", field.what));
}

}  // namespace skippy::certify
