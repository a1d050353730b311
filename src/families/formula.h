// Formulas of a family file over a model's metadata: named values, evaluated for one layer at a
// time.
//
// Vocabulary (families/README.md): numbers, + - * / ^, comparisons, && || !, c ? a : b, max, min,
// mod(a, b), div(a, b) (rounded down, 0 when b is 0), the names of `Values` and four given ones:
// layer, key_bytes, value_bytes (bytes of one element of the key and the value cache) and
// vocabulary.
//
// Threads: Values are plain data; an Evaluator belongs to one thread. Errors: kInvalidArgument (a
// formula that cannot be read, an unknown name, a value that needs itself, a key that the file
// lacks, a result that is no number of bytes). Cost: a formula is compiled once an Evaluator, then
// about a microsecond a layer.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "families/model_facts.h"
#include "skippy/result.h"

namespace skippy::families {

// Where the value of a name comes from.
enum class Source : std::uint8_t {
  kFormula,
  kKey,     // a number, or the layer's number where the file has one a layer
  kScalar,  // only a number
  kArray,   // only one number a layer
  kFirst,   // a number, or the first of several
};

struct Value {
  Source source = Source::kFormula;
  // Metadata key; "general." and "tokenizer." are global, others are the architecture's.
  std::string key;
  std::string formula;  // kFormula; else what holds when the key is missing. Empty: it is required.
};
using Values = std::map<std::string, Value, std::less<>>;

// Bytes of one element in the caches. Block types have fractions: q8_0 is 34 bytes for 32.
struct KvTypes {
  double key = 2;
  double value = 2;
};
// The element size of a cache type by its ggml name (f16, q8_0, ...); kInvalidArgument otherwise.
Result<double> ElementBytes(std::string_view type);

// Every formula can be read, every name in it is known, no value needs itself.
Status CheckFormulas(const Values& values, std::span<const std::string> formulas);

class Evaluator {
 public:
  // Borrows both. REQUIRES: CheckFormulas(values, ...) passed for what will be evaluated.
  Evaluator(const Values& values, const ModelFacts& facts, KvTypes types);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  Result<double> At(const std::string& formula, std::uint32_t layer);
  // The sum over all layers of the file, as bytes. An empty formula is 0.
  Result<std::uint64_t> Sum(const std::string& formula);
  // One number of rows or bytes; an empty formula is 0.
  Result<std::uint64_t> Count(const std::string& formula);

 private:
  struct Compiled;
  Result<Compiled*> Compile(const std::string& formula);
  Result<double> Lookup(const std::string& name);
  const Numbers* Find(const std::string& key) const;

  const Values& values_;
  const ModelFacts& facts_;
  KvTypes types_;
  std::uint32_t layer_ = 0;
  std::map<std::string, std::unique_ptr<Compiled>, std::less<>> compiled_;
  std::map<std::string, double, std::less<>> known_;  // values at layer_
};

}  // namespace skippy::families
