#include "stage/manifest.h"

#include <gtest/gtest.h>

#include <string>

namespace skippy::stage {
namespace {

Manifest Stage() {
  Manifest manifest;
  manifest.kind = "stage";
  manifest.model = {.name = "model.gguf",
                    .architecture = "deepseek2",
                    .family = "deepseek3",
                    .layers = 61,
                    .embedding = 7168,
                    .bytes = 407'000'000'000,
                    .parameters = 671'026'419'200,
                    .digest = Blake3({})};
  manifest.layers = {3, 4};
  manifest.input = {.node = "l_out-0", .width = 7168};
  manifest.output = {.node = "l_out-1", .width = 7168};
  manifest.dummies_in_front = 1;
  manifest.added = {"layer 0 is a dummy"};
  manifest.bytes = 1234;
  manifest.digest = Blake3(std::as_bytes(std::span("x", 1)));
  return manifest;
}

TEST(Manifest, ComesBackAsItWas) {
  for (const LayerRange range : {LayerRange{0, 3}, LayerRange{3, 4}, LayerRange{60, 61}}) {
    Manifest stage = Stage();
    stage.layers = range;
    if (stage.first()) stage.input.node.clear();
    if (stage.last()) stage.output.node.clear();
    const auto back = ParseManifest(ToJson(stage), "m");
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(*back, stage);
  }
  Manifest vocabulary;
  vocabulary.kind = "vocabulary";
  vocabulary.model = Stage().model;
  vocabulary.embedding_scale = 25.298221281347036;
  vocabulary.bytes = 9;
  const auto back = ParseManifest(ToJson(vocabulary), "m");
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, vocabulary);
}

TEST(Manifest, TellsWhatIsWrong) {
  const std::string good = ToJson(Stage());
  const auto says = [&](const std::string& from, const std::string& to, const std::string& words) {
    std::string bad = good;
    const std::size_t at = bad.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    bad.replace(at, from.size(), to);
    const auto manifest = ParseManifest(bad, "place/manifest.json");
    ASSERT_FALSE(manifest) << bad;
    EXPECT_EQ(manifest.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(manifest.error().message.find("place/manifest.json"), std::string::npos);
    EXPECT_NE(manifest.error().message.find(words), std::string::npos) << manifest.error().message;
  };
  says("{", "", "");
  says("skippy-stage", "other", "no manifest");
  says("\"version\": 2", "\"version\": 1", "cut the model again");
  says("\"width\"", "\"wide\"", "width");
  says("\"width\": 7168", "\"width\": \"many\"", "number");
  says("\"kind\": \"stage\"", "\"kind\": \"leg\"", "kind");
  says("\"layers\": 61", "\"layers\": 3", "no range");
  says(Stage().digest.Hex(), "zz", "digest");
  const auto missing = ReadManifest("/nowhere/at/all");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

TEST(Manifest, TellsTheCoordinatorOfThePackage) {
  const Manifest stage = Stage();
  const pipeline::StagePackage package = PackageOf(stage);
  EXPECT_EQ(package.model, stage.model.digest);
  EXPECT_EQ(package.model_name, "model.gguf");
  EXPECT_EQ(package.architecture, "deepseek2");
  EXPECT_EQ(package.model_layers, 61U);
  EXPECT_EQ(package.layers, (LayerRange{3, 4}));
  EXPECT_EQ(package.dummies_in_front, 1U);
}

}  // namespace
}  // namespace skippy::stage
