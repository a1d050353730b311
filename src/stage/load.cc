#include "stage/load.h"

#include <fmt/format.h>

#include <filesystem>

#include "llama/text_tokens.h"

namespace skippy::stage {
namespace {

std::string FileOf(const std::string& folder) { return folder + "/" + kSliceName; }

std::string Beside(const std::string& path) {
  const std::filesystem::path given(path);
  return given.has_parent_path() ? given.parent_path().string() : ".";
}

Status CheckContent(const std::string& folder, const Manifest& manifest,
                    const llama::Model& model) {
  if (model.content_digest() == manifest.digest) return {};
  return Err(
      ErrorCode::kCorruption,
      fmt::format("'{}' is not the file that its manifest describes: remove the folder and cut the "
                  "model again, or copy the folder once more",
                  FileOf(folder)));
}

}  // namespace

Result<llama::StageRuntime> NewRuntime(const Manifest& manifest, const llama::Model& model,
                                       const runtime::RuntimeOptions& options) {
  return llama::MakeStageRuntime(model, options,
                                 {.inject = manifest.input.node,
                                  .capture = manifest.output.node,
                                  .width = manifest.input.width,
                                  .takes_tokens = manifest.takes_tokens});
}

Result<LoadedStage> LoadStage(const std::string& folder, const LoadOptions& options) {
  LoadedStage stage;
  SKIPPY_TRY(stage.manifest, ReadManifest(folder));
  if (stage.manifest.kind != "stage")
    return Err(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a stage", folder));
  llama::ModelOptions file;
  file.path = FileOf(folder);
  file.gpu_layers = options.gpu_layers;
  file.use_mmap = options.use_mmap;
  file.need_tokenizer = false;
  SKIPPY_TRY(stage.model, llama::Model::Load(file));
  SKIPPY_RETURN_IF_ERROR(CheckContent(folder, stage.manifest, *stage.model));
  SKIPPY_TRY(stage.runtime, NewRuntime(stage.manifest, *stage.model, options.runtime));
  return stage;
}

Result<LoadedVocabulary> LoadVocabulary(const std::string& folder) {
  LoadedVocabulary vocabulary;
  SKIPPY_TRY(vocabulary.manifest, ReadManifest(folder));
  SKIPPY_TRY(vocabulary.rows, EmbeddingTable::Open(folder));
  llama::ModelOptions file;
  file.path = FileOf(folder);
  file.vocabulary_only = true;
  SKIPPY_TRY(vocabulary.model, llama::Model::Load(file));
  SKIPPY_RETURN_IF_ERROR(CheckContent(folder, vocabulary.manifest, *vocabulary.model));
  const std::size_t words = llama::VocabularySize(*vocabulary.model);
  if (words != vocabulary.rows->tokens())
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}' has {} tokens and {} embedding rows", FileOf(folder), words,
                           vocabulary.rows->tokens()));
  return vocabulary;
}

bool IsPackage(const std::string& path) {
  const bool file = std::filesystem::path(path).filename() == kSliceName;
  return ReadManifest(file ? Beside(path) : path).has_value();
}

Result<std::string> FindVocabulary(const std::string& path) {
  const std::filesystem::path given(path);
  const std::string beside = Beside(path);
  for (const std::string& folder : {path, path + "/vocabulary", beside}) {
    if (folder == beside && given.filename() != kSliceName) continue;
    const Result<Manifest> manifest = ReadManifest(folder);
    if (!manifest && manifest.error().code != ErrorCode::kNotFound)
      return tl::unexpected<Error>(manifest.error());
    if (manifest && manifest->has_vocabulary()) return folder;
  }
  return Err(ErrorCode::kNotFound,
             fmt::format("'{}' is no vocabulary package of a model that was cut, nor a first stage "
                         "with the vocabulary",
                         path));
}

}  // namespace skippy::stage
