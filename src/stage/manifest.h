// The manifest of a package: what a stage's file is, of which model, and what it expects of its
// neighbours. JSON, beside the file; docs/stages.md has an example.
//
// Threads: pure functions, but for reading and writing files. Errors: kNotFound (no manifest),
// kInvalidArgument (not JSON, a field is missing or of the wrong kind: it is named; another
// version), kUnavailable (cannot write).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/stage_link.h"
#include "skippy/digest.h"
#include "skippy/result.h"
#include "stage/slice_plan.h"

namespace skippy::stage {

inline constexpr int kManifestVersion = 2;
inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kSliceName = "model.gguf";

struct ModelRecord {
  std::string name;  // the file's, for people
  std::string architecture;
  std::string family;
  std::uint32_t layers = 0;
  std::uint32_t embedding = 0;   // width of an embedding row
  std::uint64_t bytes = 0;       // of its files
  std::uint64_t parameters = 0;  // numbers in its tensors
  Digest digest;                 // BLAKE3 of all its files
  bool operator==(const ModelRecord&) const = default;
};

struct Manifest {
  std::string kind;  // "stage" or "vocabulary"
  ModelRecord model;
  LayerRange layers;  // stages
  Boundary input;
  Boundary output;
  // Stages: embedding rows and tokenizer are in the file too, so it stands for the vocabulary.
  bool takes_tokens = false;
  double embedding_scale = 1;          // of a vocabulary: on a row before it enters the first stage
  std::uint32_t dummies_in_front = 0;  // layers of the file before the first of the model's
  std::vector<std::string> added;
  std::uint64_t bytes = 0;
  Digest digest;  // BLAKE3 of the file
  bool first() const { return layers.begin == 0; }
  bool has_vocabulary() const { return kind == "vocabulary" || takes_tokens; }
  bool last() const { return layers.end == model.layers; }
  bool operator==(const Manifest&) const = default;
};

// What a stage says of itself to its coordinator. REQUIRES: kind is "stage"
pipeline::StagePackage PackageOf(const Manifest& manifest);

std::string ToJson(const Manifest& manifest);
Result<Manifest> ParseManifest(const std::string& json, const std::string& where);

// `folder`: of the package. Written whole or not at all.
Status WriteManifest(const std::string& folder, const Manifest& manifest);
Result<Manifest> ReadManifest(const std::string& folder);

}  // namespace skippy::stage
