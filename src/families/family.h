// A model family as its file in families/ describes it, and the catalogue of all of them.
//
// Threads: immutable after loading. Errors: kInvalidArgument with the file's name and, where it is
// about syntax, the line. Cost: the embedded catalogue is parsed once, in a few milliseconds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "families/formula.h"
#include "families/stage_recipe.h"
#include "skippy/memory_shape.h"
#include "skippy/result.h"

namespace skippy::families {

// What a family's exactness was shown on.
enum class Basis : std::uint8_t { kNone, kSynthetic, kReal };
std::string_view BasisName(Basis basis);  // "none", "synthetic", "real"

struct Certificate {
  Basis basis = Basis::kNone;
  std::string model;                  // file name of the real model
  std::vector<std::string> fixtures;  // family names of `skippy fixtures`
  std::string note;                   // why none, or what the basis leaves out
};

struct Condition {
  std::string formula;
  std::string because;  // in words, said of a model for which it holds
};

// Formulas, each summed over the layers except `window`. Empty: the family has no such component.
struct ByteFormulas {
  std::string token;         // append-only rows, a token
  std::string window_token;  // window rows, a token
  std::string window;        // rows of the window that a boundary needs
  std::string snapshot;      // recurrent state
  std::string latent;        // `token` if the state is latent, for families with latent attention
  std::string expanded;      // `token` if it is expanded
};

struct Family {
  std::string name;
  std::string title;
  std::vector<std::string> architectures;
  std::vector<Condition> when;
  std::string memory;       // in words
  std::string granularity;  // in words
  PayloadPolicy policy = PayloadPolicy::kOff;
  std::string reason;  // why kOff
  ByteFormulas bytes;
  StageRecipe stages;
  Certificate certificate;
  Values values;  // common ones included

  bool IsLatent() const { return !bytes.latent.empty(); }
};

struct SourceFile {
  std::string_view name;  // "common.toml" is what all others share
  std::string_view text;
};

Result<std::vector<Family>> ParseFamilies(std::span<const SourceFile> files);

// The files of families/, as they were when this program was built; sorted by name.
const Result<std::vector<Family>>& EmbeddedFamilies();

}  // namespace skippy::families
