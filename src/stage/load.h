// Packages into memory: a stage that computes, or the vocabulary that the coordinator speaks with.
//
// Threads: single-threaded. Errors: those of ReadManifest and of loading; kInvalidArgument (a
// package of the other kind), kCorruption (the file is not the one that its manifest describes).
// Cost: the file in memory; it is read once more for its digest.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "llama/llama_runtime.h"
#include "llama/model.h"
#include "runtime/runtime_options.h"
#include "skippy/result.h"
#include "stage/embedding.h"
#include "stage/manifest.h"

namespace skippy::stage {

struct LoadOptions {
  runtime::RuntimeOptions runtime;
  std::int32_t gpu_layers = -1;  // -1: all that fit
  bool use_mmap = true;
};

// One stage, loaded.
struct LoadedStage {
  Manifest manifest;
  std::unique_ptr<llama::Model> model;
  llama::StageRuntime runtime;
};
// On the model of a stage's file, which must outlive it; as many as are wanted.
Result<llama::StageRuntime> NewRuntime(const Manifest& manifest, const llama::Model& model,
                                       const runtime::RuntimeOptions& options);
// `folder`: of the package.
Result<LoadedStage> LoadStage(const std::string& folder, const LoadOptions& options);

struct LoadedVocabulary {
  Manifest manifest;
  std::unique_ptr<llama::Model> model;  // vocabulary_only
  std::unique_ptr<EmbeddingTable> rows;
};
Result<LoadedVocabulary> LoadVocabulary(const std::string& folder);

// The folder of the vocabulary package (or of a first stage that stands for it) that `path` means:
// the folder itself, the folder that the model was cut into, or the package's file. kNotFound: none
// of them.
Result<std::string> FindVocabulary(const std::string& path);
// `path` is a package's folder or the file in it.
bool IsPackage(const std::string& path);

}  // namespace skippy::stage
