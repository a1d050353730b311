// What the stages of a model must agree on before anything is computed, and what they are together.
//
// Threads: pure functions. Errors: kInvalidArgument, naming the stage (by its address), what it
// says, what the others say and how to start it rightly.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pipeline/stage_link.h"
#include "pipeline/wire.h"
#include "runtime/runtime.h"
#include "skippy/result.h"

namespace skippy::pipeline {

// Of the vocabulary package that the coordinator has.
struct Coordinator {
  Digest model;
  std::string model_name;
  Digest tokenizer;
  std::uint32_t layers = 0;  // of the model
  std::uint32_t width = 0;   // of an embedding row
  std::uint32_t vocab = 0;
  WireFormat wire = WireFormat::kF32;
};

struct DescribedStage {
  std::string address;
  StageDescription description;
};

std::string NameOf(const DescribedStage& stage);  // for people: "stage 0..10 at HOST:PORT/0..10"

// Sorts by layers. An error where they are not of this model, leave a gap, overlap, or were started
// with other settings (context, lanes, chunk, cache types, build) than the first.
Status Agree(const Coordinator& coordinator, std::vector<DescribedStage>& stages);

// Whether a stage that came back is what it was; its session does not count.
bool SameStage(const StageDescription& a, const StageDescription& b);

// The model that the stages are together. State is exported as names (state_keeper.h), so its shape
// has the bytes of a key (piece.h) where the stages have state of a component. The identity does
// not tell where the model is cut, unless that changes bits: stages on unlike devices or with
// unlike numbers of threads. A wire that loses bits has an identity of its own.
runtime::RuntimeInfo Together(const Coordinator& coordinator,
                              std::span<const DescribedStage> stages);

}  // namespace skippy::pipeline
