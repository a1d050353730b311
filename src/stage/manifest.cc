#include "stage/manifest.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

namespace skippy::stage {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "skippy-stage";

Json BoundaryJson(const Boundary& boundary, const char* without_node) {
  Json json{{"through", boundary.node.empty() ? without_node : "node"}, {"width", boundary.width}};
  if (!boundary.node.empty()) json["node"] = boundary.node;
  return json;
}

Boundary ReadBoundary(const Json& json) {
  Boundary boundary;
  boundary.node = json.value("node", "");
  boundary.width = json.at("width").get<std::uint32_t>();
  return boundary;
}

std::optional<Digest> FromHex(const std::string& text) {
  Digest digest;
  if (text.size() != 2 * digest.bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < digest.bytes.size(); ++i) {
    unsigned value = 0;
    if (std::sscanf(text.substr(2 * i, 2).c_str(), "%2x", &value) != 1) return std::nullopt;
    digest.bytes[i] = static_cast<std::uint8_t>(value);
  }
  return digest.Hex() == text ? std::optional(digest) : std::nullopt;
}

Digest ReadDigest(const Json& json) {
  if (const auto digest = FromHex(json.get<std::string>())) return *digest;
  throw std::runtime_error("a digest is not 64 hexadecimal digits");
}

Manifest FromJson(const Json& json) {
  Manifest manifest;
  manifest.kind = json.at("kind").get<std::string>();
  if (manifest.kind != "stage" && manifest.kind != "vocabulary")
    throw std::runtime_error("kind is neither stage nor vocabulary");
  const Json& model = json.at("model");
  manifest.model = {.name = model.at("name").get<std::string>(),
                    .architecture = model.at("architecture").get<std::string>(),
                    .family = model.at("family").get<std::string>(),
                    .layers = model.at("layers").get<std::uint32_t>(),
                    .embedding = model.at("embedding").get<std::uint32_t>(),
                    .bytes = model.at("bytes").get<std::uint64_t>(),
                    .parameters = model.at("parameters").get<std::uint64_t>(),
                    .digest = ReadDigest(model.at("blake3"))};
  const Json& file = json.at("file");
  manifest.bytes = file.at("bytes").get<std::uint64_t>();
  manifest.digest = ReadDigest(file.at("blake3"));
  manifest.takes_tokens = json.value("takes_tokens", false);
  if (manifest.has_vocabulary())
    manifest.embedding_scale = json.at("embedding_scale").get<double>();
  if (manifest.kind == "vocabulary") return manifest;
  const Json& layers = json.at("layers");
  manifest.layers = {layers.at(0).get<std::uint32_t>(), layers.at(1).get<std::uint32_t>()};
  if (manifest.layers.begin >= manifest.layers.end || manifest.layers.end > manifest.model.layers)
    throw std::runtime_error("layers is no range of the model's");
  manifest.input = ReadBoundary(json.at("input"));
  manifest.output = ReadBoundary(json.at("output"));
  if (manifest.takes_tokens && !manifest.first())
    throw std::runtime_error("only the first stage can take tokens");
  manifest.dummies_in_front = json.at("dummies_in_front").get<std::uint32_t>();
  manifest.added = json.at("added").get<std::vector<std::string>>();
  return manifest;
}

}  // namespace

pipeline::StagePackage PackageOf(const Manifest& manifest) {
  return {.model = manifest.model.digest,
          .model_name = manifest.model.name,
          .architecture = manifest.model.architecture,
          .model_layers = manifest.model.layers,
          .layers = manifest.layers,
          .dummies_in_front = manifest.dummies_in_front};
}

std::string ToJson(const Manifest& manifest) {
  const ModelRecord& model = manifest.model;
  Json json{{"schema", kSchema}, {"version", kManifestVersion}, {"kind", manifest.kind}};
  json["model"] = {{"name", model.name},
                   {"architecture", model.architecture},
                   {"family", model.family},
                   {"layers", model.layers},
                   {"embedding", model.embedding},
                   {"bytes", model.bytes},
                   {"parameters", model.parameters},
                   {"blake3", model.digest.Hex()}};
  if (manifest.has_vocabulary()) json["embedding_scale"] = manifest.embedding_scale;
  if (manifest.kind == "stage") {
    json["layers"] = {manifest.layers.begin, manifest.layers.end};
    json["input"] = BoundaryJson(manifest.input, "embeddings");
    json["output"] = BoundaryJson(manifest.output, "logits");
    json["dummies_in_front"] = manifest.dummies_in_front;
    json["takes_tokens"] = manifest.takes_tokens;
    json["added"] = manifest.added;
  }
  json["file"] = {
      {"name", kSliceName}, {"bytes", manifest.bytes}, {"blake3", manifest.digest.Hex()}};
  return json.dump(2) + "\n";
}

Result<Manifest> ParseManifest(const std::string& text, const std::string& where) try {
  const Json json = Json::parse(text);
  if (json.value("schema", "") != kSchema)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}' is no manifest of a stage package", where));
  if (const int version = json.at("version").get<int>(); version != kManifestVersion)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}' has version {}, this program reads {}: cut the model again", where,
                           version, kManifestVersion));
  return FromJson(json);
} catch (const std::exception& error) {
  return Err(ErrorCode::kInvalidArgument, fmt::format("'{}': {}", where, error.what()));
}

Status WriteManifest(const std::string& folder, const Manifest& manifest) {
  const std::string path = folder + "/" + kManifestName;
  const std::string part = path + ".part";
  std::ofstream file(part, std::ios::binary);
  file << ToJson(manifest);
  file.close();
  if (!file || std::rename(part.c_str(), path.c_str()) != 0)
    return Err(ErrorCode::kUnavailable,
               fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
  return {};
}

Result<Manifest> ReadManifest(const std::string& folder) {
  const std::string path = folder + "/" + kManifestName;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()))
    return Err(ErrorCode::kNotFound,
               fmt::format("'{}' is no stage package: cannot read '{}'", folder, path));
  return ParseManifest(text.str(), path);
}

}  // namespace skippy::stage
