#include "families/formula.h"

#include <fmt/format.h>
#include <muParser.h>

#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

namespace skippy::families {
namespace {

constexpr std::uint32_t kMostLayers = 4096;      // llama.cpp's own limit is 512
constexpr double kMostBytes = 9007199254740992;  // 2^53: doubles count exactly up to here

constexpr std::array kGiven{std::string_view("layer"), std::string_view("key_bytes"),
                            std::string_view("value_bytes"), std::string_view("vocabulary")};

bool IsGiven(std::string_view name) {
  for (const std::string_view given : kGiven)
    if (name == given) return true;
  return false;
}

double Modulo(double a, double b) { return b == 0 ? 0 : a - b * std::floor(a / b); }
double Quotient(double a, double b) { return b == 0 ? 0 : std::floor(a / b); }
double Not(double a) { return a == 0 ? 1 : 0; }

void Prepare(mu::Parser& parser, const std::string& formula) {
  parser.DefineFun("mod", Modulo);
  parser.DefineFun("div", Quotient);
  parser.DefineInfixOprt("!", Not);
  parser.SetExpr(formula);
}

Error Unreadable(const std::string& formula, const mu::Parser::exception_type& error) {
  return {ErrorCode::kInvalidArgument, fmt::format("formula '{}': {}", formula, error.GetMsg())};
}

Result<std::vector<std::string>> NamesIn(const std::string& formula) try {
  mu::Parser parser;
  Prepare(parser, formula);
  std::vector<std::string> names;
  for (const auto& [name, unused] : parser.GetUsedVar()) names.push_back(name);
  return names;
} catch (const mu::Parser::exception_type& error) {
  return tl::unexpected<Error>(Unreadable(formula, error));
}

// Depth-first over the names that a formula needs; `open` are those being looked at.
class Checker {
 public:
  explicit Checker(const Values& values) : values_(values) {}

  Status Formula(const std::string& formula) {
    SKIPPY_TRY(const std::vector<std::string> names, NamesIn(formula));
    for (const std::string& name : names) SKIPPY_RETURN_IF_ERROR(Name(name, formula));
    return {};
  }

  Status Name(const std::string& name, const std::string& user) {
    if (IsGiven(name) || done_.contains(name)) return {};
    const auto value = values_.find(name);
    if (value == values_.end())
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("formula '{}': nothing is called '{}'", user, name));
    if (!open_.insert(name).second)
      return Err(ErrorCode::kInvalidArgument, fmt::format("value '{}' needs itself", name));
    if (!value->second.formula.empty()) SKIPPY_RETURN_IF_ERROR(Formula(value->second.formula));
    open_.erase(name);
    done_.insert(name);
    return {};
  }

 private:
  const Values& values_;
  std::set<std::string, std::less<>> open_;
  std::set<std::string, std::less<>> done_;
};

// The number of a key at a layer, if the file has one there.
std::optional<double> Pick(const Numbers& numbers, Source source, std::uint32_t layer) {
  if (numbers.values.empty()) return std::nullopt;
  switch (source) {
    case Source::kFormula: return std::nullopt;
    case Source::kScalar:
      return numbers.array ? std::nullopt : std::optional(numbers.values.front());
    case Source::kFirst: return numbers.values.front();
    case Source::kKey:
      if (!numbers.array) return numbers.values.front();
      break;
    case Source::kArray:
      if (!numbers.array) return std::nullopt;
      break;
  }
  return layer < numbers.values.size() ? std::optional(numbers.values[layer]) : std::nullopt;
}

Result<std::uint64_t> Whole(const std::string& formula, double value) {
  if (!std::isfinite(value) || value < 0 || value > kMostBytes || value != std::floor(value))
    return Err(
        ErrorCode::kInvalidArgument,
        fmt::format("formula '{}' gives {}, which is no number of bytes or rows", formula, value));
  return static_cast<std::uint64_t>(value);
}

}  // namespace

Result<double> ElementBytes(std::string_view type) {
  struct Type {
    std::string_view name;
    double bytes;
  };
  // Bytes of a block by its elements; held against ggml by tests/model.
  static constexpr std::array kTypes{Type{"f32", 4},
                                     Type{"f16", 2},
                                     Type{"bf16", 2},
                                     Type{"q8_0", 34.0 / 32},
                                     Type{"q4_0", 18.0 / 32},
                                     Type{"q4_1", 20.0 / 32},
                                     Type{"iq4_nl", 18.0 / 32},
                                     Type{"q5_0", 22.0 / 32},
                                     Type{"q5_1", 24.0 / 32}};
  std::string names;
  for (const Type& known : kTypes) {
    if (known.name == type) return known.bytes;
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  return Err(ErrorCode::kInvalidArgument,
             fmt::format("'{}' is not a cache type ({})", type, names));
}

Status CheckFormulas(const Values& values, std::span<const std::string> formulas) {
  Checker checker(values);
  for (const auto& [name, value] : values) {
    if (IsGiven(name))
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("value '{}' is given, not defined", name));
    SKIPPY_RETURN_IF_ERROR(checker.Name(name, name));
  }
  for (const std::string& formula : formulas)
    if (!formula.empty()) SKIPPY_RETURN_IF_ERROR(checker.Formula(formula));
  return {};
}

struct Evaluator::Compiled {
  mu::Parser parser;
  std::vector<std::string> names;
  std::vector<double> slots;  // what the parser reads; never resized after compiling
};

Evaluator::Evaluator(const Values& values, const ModelFacts& facts, KvTypes types)
    : values_(values), facts_(facts), types_(types) {}
Evaluator::~Evaluator() = default;

Result<Evaluator::Compiled*> Evaluator::Compile(const std::string& formula) {
  if (const auto found = compiled_.find(formula); found != compiled_.end())
    return found->second.get();
  auto compiled = std::make_unique<Compiled>();
  SKIPPY_TRY(compiled->names, NamesIn(formula));
  compiled->slots.resize(compiled->names.size());
  try {
    Prepare(compiled->parser, formula);
    for (std::size_t i = 0; i < compiled->names.size(); ++i)
      compiled->parser.DefineVar(compiled->names[i], &compiled->slots[i]);
  } catch (const mu::Parser::exception_type& error) {
    return tl::unexpected<Error>(Unreadable(formula, error));
  }
  return compiled_.emplace(formula, std::move(compiled)).first->second.get();
}

const Numbers* Evaluator::Find(const std::string& key) const {
  const bool global = key.starts_with("general.") || key.starts_with("tokenizer.");
  const auto found = facts_.numbers.find(global ? key : facts_.architecture + "." + key);
  return found == facts_.numbers.end() ? nullptr : &found->second;
}

Result<double> Evaluator::Lookup(const std::string& name) {
  if (name == "layer") return layer_;
  if (name == "key_bytes") return types_.key;
  if (name == "value_bytes") return types_.value;
  if (name == "vocabulary") return static_cast<double>(facts_.vocabulary);
  if (const auto known = known_.find(name); known != known_.end()) return known->second;
  const auto value = values_.find(name);
  if (value == values_.end())
    return Err(ErrorCode::kInvalidArgument, fmt::format("nothing is called '{}'", name));
  double result = 0;
  const Numbers* numbers = value->second.key.empty() ? nullptr : Find(value->second.key);
  const auto picked =
      numbers == nullptr ? std::nullopt : Pick(*numbers, value->second.source, layer_);
  if (picked) {
    result = *picked;
  } else if (!value->second.formula.empty()) {
    SKIPPY_TRY(result, At(value->second.formula, layer_));
  } else {
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("the file has no key '{}.{}'{}", facts_.architecture, value->second.key,
                           numbers == nullptr ? "" : " for every layer"));
  }
  known_[name] = result;
  return result;
}

Result<double> Evaluator::At(const std::string& formula, std::uint32_t layer) {
  if (layer != layer_) known_.clear();
  layer_ = layer;
  SKIPPY_TRY(Compiled * compiled, Compile(formula));
  // Values first, slots then: looking a name up may evaluate other formulas.
  for (std::size_t i = 0; i < compiled->names.size(); ++i) {
    SKIPPY_TRY(compiled->slots[i], Lookup(compiled->names[i]));
  }
  try {
    return compiled->parser.Eval();
  } catch (const mu::Parser::exception_type& error) {
    return tl::unexpected<Error>(Unreadable(formula, error));
  }
}

Result<std::uint64_t> Evaluator::Sum(const std::string& formula) {
  if (formula.empty()) return 0;
  SKIPPY_TRY(const std::uint64_t layers, Count("all_layers"));
  if (layers > kMostLayers)
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("the file names {} layers, more than {}", layers, kMostLayers));
  double sum = 0;
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    SKIPPY_TRY(const double bytes, At(formula, layer));
    sum += bytes;
  }
  return Whole(formula, sum);
}

Result<std::uint64_t> Evaluator::Count(const std::string& formula) {
  if (formula.empty()) return 0;
  SKIPPY_TRY(const double value, At(formula, 0));
  return Whole(formula, value);
}

}  // namespace skippy::families
