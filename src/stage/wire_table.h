// How much each wire moves the logits of a whole chain of stages.
//
// The same tokens go through the chain once with the rows as they are, and then with all rows that
// enter a stage over each wire, as `skippy serve --stage-wire` sends them (embedding rows too;
// there a row between two stages is coded twice, but coding what was coded gives it back, at most
// an ulp of int8's scale off). Beside them, the noise floor: the same rows, each value one ulp
// larger.
//
// Threads: single-threaded. Errors: those of Chain::Load and of the runtime; kInvalidArgument (one
// stage only, too few tokens); a wire that refuses its rows is no error but a row that says so.
// Cost: the stages in memory, the tokens through all of them six times, and the logits of
// `positions` tokens twice.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/runtime_options.h"
#include "skippy/result.h"
#include "skippy/types.h"
#include "stage/manifest.h"

namespace skippy::stage {

struct WireTableOptions {
  std::string vocabulary;           // folder of the vocabulary package
  std::vector<std::string> stages;  // folders of all stages of the model
  std::vector<Token> tokens;
  std::string text;    // what the tokens are, for people
  Pos positions = 50;  // the last ones, one by one; those before them in chunks
  runtime::RuntimeOptions runtime = {.context = 512, .chunk = 64, .threads = 1};
};

struct WireRow {
  std::string wire;     // its name, or kOneUlp
  std::uint64_t bytes;  // of a row
  std::string refused;  // the wire's words; empty: it was measured
  // Against the logits of the untouched rows:
  bool exact = false;            // the same bits
  double nmse = 0;               // mean squared difference over mean square
  std::uint32_t same_token = 0;  // positions whose most likely token is the same
  double divergence = 0;         // Kullback-Leibler, nats: the mean over the positions
};
inline constexpr const char* kOneUlp = "one ulp";

struct WireTable {
  ModelRecord model;
  std::string runtime_build;
  std::vector<LayerRange> stages;
  std::string text;
  Pos tokens = 0;
  Pos positions = 0;
  std::vector<WireRow> rows;
  bool Passed() const;  // f32 is exact: else no row says anything
};

// Folders of the stages in `folder`, as `skippy stage split` names them. kNotFound: no such folder.
Result<std::vector<std::string>> StagesIn(const std::string& folder);

Result<WireTable> MeasureWires(const WireTableOptions& options);

std::string ToJson(const WireTable& table);
std::string ToText(const WireTable& table);

}  // namespace skippy::stage
