// Formulas: what they compute, and that a bad one is an error that says why.
#include "families/formula.h"

#include <gtest/gtest.h>

namespace skippy::families {
namespace {

ModelFacts FourLayers() {
  ModelFacts facts;
  facts.architecture = "test";
  facts.Set("block_count", 4);
  facts.Set("width", 10);
  facts.SetLayers("heads", {1, 2, 3, 4});
  facts.vocabulary = 77;
  return facts;
}

Values TestValues() {
  return {{"all_layers", {Source::kKey, "block_count", ""}},
          {"width", {Source::kKey, "width", ""}},
          {"heads", {Source::kKey, "heads", ""}},
          {"only_number", {Source::kScalar, "heads", "5"}},
          {"only_layers", {Source::kArray, "width", "6"}},
          {"first", {Source::kFirst, "heads", ""}},
          {"missing", {Source::kKey, "nowhere", ""}},
          {"fallback", {Source::kKey, "nowhere", "heads * width"}},
          {"twice", {Source::kFormula, "", "2 * fallback"}}};
}

double At(const std::string& formula, std::uint32_t layer, KvTypes types = {}) {
  const Values values = TestValues();
  const ModelFacts facts = FourLayers();
  Evaluator evaluator(values, facts, types);
  const auto value = evaluator.At(formula, layer);
  EXPECT_TRUE(value) << value.error().message;
  return value.value_or(-1);
}

std::string WhyNot(const std::string& formula) {
  const Values values = TestValues();
  const ModelFacts facts = FourLayers();
  Evaluator evaluator(values, facts, {});
  const auto value = evaluator.Sum(formula);
  EXPECT_FALSE(value) << *value;
  return value ? "" : value.error().message;
}

TEST(FormulaTest, NamesReadMetadataOfTheirLayer) {
  EXPECT_EQ(At("width", 3), 10);
  EXPECT_EQ(At("heads", 2), 3);
  EXPECT_EQ(At("first", 2), 1);
  EXPECT_EQ(At("only_number", 0), 5) << "the key is there, but a list";
  EXPECT_EQ(At("only_layers", 0), 6) << "the key is there, but one number";
  EXPECT_EQ(At("twice", 1), 40);
  EXPECT_EQ(At("vocabulary + layer", 2), 79);
}

TEST(FormulaTest, ArithmeticAndConditions) {
  EXPECT_EQ(At("mod(layer + 1, 4) != 0 ? 1 : 2", 3), 2);
  EXPECT_EQ(At("mod(7, 0) + div(7, 0)", 0), 0);
  EXPECT_EQ(At("div(7, 2)", 0), 3);
  EXPECT_EQ(At("!(layer > 2) && width == 10", 1), 1);
  EXPECT_EQ(At("!layer", 1), 0);
  EXPECT_EQ(At("max(width - 11, 0)", 1), 0);
}

TEST(FormulaTest, ElementSizesAreThoseOfTheCacheTypes) {
  const KvTypes types{*ElementBytes("q8_0"), *ElementBytes("f32")};
  EXPECT_EQ(At("64 * key_bytes", 0, types), 68);
  EXPECT_EQ(At("64 * value_bytes", 0, types), 256);
  const auto unknown = ElementBytes("f17");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("q4_0"), std::string::npos) << "names the known ones";
}

TEST(FormulaTest, SumsGoOverAllLayers) {
  const Values values = TestValues();
  const ModelFacts facts = FourLayers();
  Evaluator evaluator(values, facts, {});
  EXPECT_EQ(evaluator.Sum("heads * width").value(), 100U);
  EXPECT_EQ(evaluator.Sum("").value(), 0U);
  EXPECT_EQ(evaluator.Count("first + 4").value(), 5U);
}

TEST(FormulaTest, WhatIsNoNumberOfBytesIsAnError) {
  EXPECT_NE(WhyNot("heads / 3 + 0.1").find("no number of bytes"), std::string::npos);
  EXPECT_NE(WhyNot("0 - width").find("no number of bytes"), std::string::npos);
  EXPECT_NE(WhyNot("1 / (layer - layer)").find("no number of bytes"), std::string::npos);
  EXPECT_NE(WhyNot("2 ^ 60").find("no number of bytes"), std::string::npos);
  EXPECT_NE(WhyNot("missing").find("no key 'test.nowhere'"), std::string::npos);
}

TEST(FormulaTest, AListThatIsTooShortIsAMissingKey) {
  const Values values = TestValues();
  ModelFacts facts = FourLayers();
  facts.SetLayers("heads", {1, 2});
  Evaluator evaluator(values, facts, {});
  EXPECT_EQ(evaluator.At("heads", 1).value(), 2);
  const auto beyond = evaluator.At("heads", 2);
  ASSERT_FALSE(beyond);
  EXPECT_NE(beyond.error().message.find("for every layer"), std::string::npos);
}

TEST(FormulaTest, AnAbsurdNumberOfLayersIsRefused) {
  const Values values = TestValues();
  ModelFacts facts = FourLayers();
  for (const double layers : {4294967295.0, 1e18, -1.0, 0.5}) {
    facts.Set("block_count", layers);
    Evaluator evaluator(values, facts, {});
    EXPECT_FALSE(evaluator.Sum("width")) << layers;
  }
}

std::string Refusal(const Values& values, const std::string& formula) {
  const std::vector<std::string> formulas{formula};
  const Status status = CheckFormulas(values, formulas);
  return status ? "" : status.error().message;
}

TEST(FormulaTest, BadFormulasAreFoundBeforeTheyAreUsed) {
  const Values values = TestValues();
  EXPECT_EQ(Refusal(values, "twice + layer"), "");
  EXPECT_NE(Refusal(values, "heads *").find("heads *"), std::string::npos);
  EXPECT_NE(Refusal(values, "haeds").find("nothing is called 'haeds'"), std::string::npos);
  EXPECT_NE(Refusal(values, "nonsense(1)"), "");
  EXPECT_NE(
      Refusal({{"a", {Source::kFormula, "", "b"}}, {"b", {Source::kFormula, "", "a + 1"}}}, "")
          .find("needs itself"),
      std::string::npos);
  EXPECT_NE(Refusal({{"layer", {Source::kFormula, "", "1"}}}, "").find("given"), std::string::npos);
}

}  // namespace
}  // namespace skippy::families
