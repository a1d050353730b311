// What `skippy serve` computes with: a model file, or the stages of one that was cut.
//
// Errors: those of loading and of connecting; kInvalidArgument where the stages do not agree, with
// what to do. Nothing is computed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/server_state.h"
#include "cli/serve_options.h"
#include "llama/model.h"
#include "pipeline/pipeline_runtime.h"
#include "rpc/hangup.h"
#include "runtime/runtime.h"
#include "skippy/result.h"
#include "stage/load.h"

namespace skippy::cli {

class ServedModel {
 public:
  static Result<ServedModel> Load(const ServeOptions& options);

  const llama::Model& model() const { return vocabulary_ ? *vocabulary_->model : *whole_; }
  runtime::Runtime& runtime() { return *runtime_; }
  bool in_stages() const { return pipeline_ != nullptr; }
  // Ends what is asked of stages of other processes, for good. Thread-safe.
  void Disconnect() { hangup_->Now(); }
  // What clients are told; none: the file says it.
  std::optional<api::StagedModel> Staged() const;
  std::string FamilyWords() const;  // the model's, and whether its memory is as that family's
  // Lines for the operator: model, family, memory, stages, warnings.
  std::vector<std::string> StartLines() const;

 private:
  ServedModel() = default;
  Status LoadWhole(const ServeOptions& options);
  Status LoadStages(const ServeOptions& options, const std::string& folder);
  std::vector<std::string> StageLines() const;

  std::string file_;
  StagesSetup setup_;
  std::shared_ptr<rpc::Hangup> hangup_ = std::make_shared<rpc::Hangup>();
  std::unique_ptr<llama::Model> whole_;
  std::optional<stage::LoadedVocabulary> vocabulary_;
  std::unique_ptr<runtime::Runtime> runtime_;  // destroyed before what it reads
  const pipeline::PipelineRuntime* pipeline_ = nullptr;
};

}  // namespace skippy::cli
