#include "stage/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "families/identify.h"
#include "llama/gguf_check.h"
#include "stage/slice_file.h"

namespace skippy::stage {
namespace {

// Layers that cannot be parted are cut as one: `begins` are the first ones.
Weights Joined(const Weights& bytes, const std::vector<std::uint32_t>& begins) {
  Weights joined{{}, bytes.first, bytes.last};
  for (std::size_t i = 0; i < bytes.layers.size(); ++i) {
    if (std::binary_search(begins.begin(), begins.end(), i)) joined.layers.push_back(0);
    joined.layers.back() += bytes.layers[i];
  }
  return joined;
}

Result<std::vector<LayerRange>> RangesOf(const SplitOptions& options, const Source& source,
                                         const families::Family& family) {
  const int given = static_cast<int>(!options.layers.empty()) +
                    static_cast<int>(options.stages > 0) + static_cast<int>(options.max_bytes > 0);
  if (given != 1)
    return Err(ErrorCode::kInvalidArgument,
               "say where to cut: ranges of layers, a number of stages, or the bytes that a stage "
               "may have");
  SKIPPY_TRY(const std::uint32_t layers, LayersOf(source));
  if (!options.layers.empty()) return ParseRanges(options.layers, layers);
  SKIPPY_TRY(const Weights weights, WeightsOf(source, options.first));
  SKIPPY_TRY(std::vector<std::uint32_t> begins, BeginsOf(source, family));
  const Weights joined = Joined(weights, begins);
  SKIPPY_TRY(std::vector<LayerRange> ranges, options.stages > 0
                                                 ? CutInto(options.stages, joined)
                                                 : CutBelow(options.max_bytes, joined));
  begins.push_back(layers);
  for (LayerRange& range : ranges) range = {begins[range.begin], begins[range.end]};
  return ranges;
}

}  // namespace

Result<families::Family> FamilyOf(const Source& source) {
  const auto& families = families::EmbeddedFamilies();
  if (!families) return tl::unexpected<Error>(families.error());
  const families::Match match = families::Identify(*families, source.facts());
  if (match.family != nullptr) return *match.family;
  families::Family unknown;
  unknown.name = "unknown";
  return unknown;
}

namespace {

class Splitter {
 public:
  Splitter(const Source& source, families::Family family, const SplitProgress& progress)
      : source_(source), family_(std::move(family)), progress_(progress) {}

  Status DescribeModel(const std::string& path);
  Result<Package> Vocabulary(const std::string& out);
  Result<Package> Stage(const std::string& out, const SlicePlan& plan);
  const families::Family& family() const { return family_; }

 private:
  Result<Package> Write(const std::string& folder, const SlicePlan& plan, Manifest manifest);
  Result<double> EmbeddingScale() const;
  Result<bool> IsThere(const std::string& folder, const Manifest& wanted, Manifest& found) const;

  const Source& source_;
  const families::Family family_;
  const SplitProgress& progress_;
  ModelRecord model_;
};

Status Splitter::DescribeModel(const std::string& path) {
  model_.name = std::filesystem::path(path).filename().string();
  model_.architecture = source_.facts().architecture;
  model_.family = family_.name;
  SKIPPY_TRY(model_.layers, LayersOf(source_));
  const auto embedding = source_.facts().numbers.find(model_.architecture + ".embedding_length");
  if (embedding != source_.facts().numbers.end())
    model_.embedding = static_cast<std::uint32_t>(embedding->second.values.front());
  model_.bytes = source_.bytes();
  model_.parameters = ParametersOf(source_);
  SKIPPY_TRY(model_.digest, llama::DigestFiles(source_.files(), [this](std::uint64_t done) {
               return !progress_ || progress_(done, source_.bytes(), "the model's digest");
             }));
  return {};
}

// A finished package of the same model and range; one of something else must not be overwritten.
Result<bool> Splitter::IsThere(const std::string& folder, const Manifest& wanted,
                               Manifest& found) const {
  Result<Manifest> manifest = ReadManifest(folder);
  if (!manifest) {
    if (manifest.error().code == ErrorCode::kNotFound) return false;
    return tl::unexpected<Error>(manifest.error());
  }
  if (manifest->model.digest == wanted.model.digest && manifest->layers == wanted.layers &&
      manifest->kind == wanted.kind && manifest->takes_tokens != wanted.takes_tokens)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}' holds this stage {} the vocabulary: remove it or choose another "
                           "folder",
                           folder, manifest->takes_tokens ? "with" : "without"));
  if (manifest->model.digest != wanted.model.digest || manifest->layers != wanted.layers ||
      manifest->kind != wanted.kind)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("'{}' holds a package of another model ({}): remove it or choose "
                           "another folder",
                           folder, manifest->model.name));
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(folder + "/" + kSliceName, error);
  if (error || bytes != manifest->bytes) return false;
  found = std::move(*manifest);
  return true;
}

Result<Package> Splitter::Write(const std::string& folder, const SlicePlan& plan,
                                Manifest manifest) {
  manifest.model = model_;
  Package package;
  package.folder = folder;
  SKIPPY_TRY(package.was_there, IsThere(folder, manifest, package.manifest));
  std::error_code ignored;
  std::filesystem::remove_all(folder + "/" + kCheckFolder, ignored);  // of a check that was killed
  if (package.was_there) return package;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return Err(ErrorCode::kUnavailable,
               fmt::format("cannot create '{}': {}", folder, error.message()));
  const std::string what = std::filesystem::path(folder).filename().string();
  SKIPPY_TRY(const WrittenFile file, WriteSlice(source_, plan, folder + "/" + kSliceName,
                                                [&](std::uint64_t done, std::uint64_t total) {
                                                  return !progress_ || progress_(done, total, what);
                                                }));
  manifest.bytes = file.bytes;
  manifest.digest = file.digest;
  SKIPPY_RETURN_IF_ERROR(WriteManifest(folder, manifest));
  package.manifest = std::move(manifest);
  return package;
}

Result<double> Splitter::EmbeddingScale() const {
  if (family_.stages.embedding_scale.empty()) return 1;
  families::Evaluator formulas(family_.values, source_.facts(), families::KvTypes());
  return formulas.At(family_.stages.embedding_scale, 0);
}

Result<Package> Splitter::Vocabulary(const std::string& out) {
  SKIPPY_TRY(const SlicePlan plan, PlanVocabulary(source_));
  Manifest manifest;
  manifest.kind = "vocabulary";
  SKIPPY_TRY(manifest.embedding_scale, EmbeddingScale());
  return Write(out + "/vocabulary", plan, std::move(manifest));
}

Result<Package> Splitter::Stage(const std::string& out, const SlicePlan& plan) {
  Manifest manifest;
  manifest.kind = "stage";
  manifest.layers = plan.layers;
  manifest.input = plan.input;
  manifest.output = plan.output;
  manifest.dummies_in_front = plan.dummies_in_front;
  manifest.added = plan.added;
  manifest.takes_tokens = plan.tokenizer;
  if (manifest.takes_tokens) {
    SKIPPY_TRY(manifest.embedding_scale, EmbeddingScale());
  }
  return Write(out + "/stage-" + ToString(plan.layers), plan, std::move(manifest));
}

}  // namespace

Result<std::vector<Package>> Split(const SplitOptions& options, const SplitProgress& progress) {
  SKIPPY_TRY(const std::unique_ptr<Source> source, Source::Open(options.model));
  SKIPPY_TRY(families::Family family, FamilyOf(*source));
  SKIPPY_TRY(const std::vector<LayerRange> ranges, RangesOf(options, *source, family));
  if (options.first == FirstStage::kReal && ranges.front().begin != 0)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("a real first stage is asked for, and {} does not begin with layer 0",
                           ToString(ranges.front())));
  Splitter splitter(*source, std::move(family), progress);
  // All plans first: nothing is written for a model that cannot be cut there.
  std::vector<SlicePlan> plans;
  for (const LayerRange range : ranges) {
    SKIPPY_TRY(SlicePlan plan, PlanSlice(*source, splitter.family(), range, options.first));
    plans.push_back(std::move(plan));
  }
  SKIPPY_RETURN_IF_ERROR(splitter.DescribeModel(options.model));
  std::vector<Package> packages;
  SKIPPY_TRY(Package vocabulary, splitter.Vocabulary(options.out));
  packages.push_back(std::move(vocabulary));
  for (const SlicePlan& plan : plans) {
    SKIPPY_TRY(Package package, splitter.Stage(options.out, plan));
    packages.push_back(std::move(package));
  }
  return packages;
}

}  // namespace skippy::stage
