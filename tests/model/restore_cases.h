// The facts that every memory family must show, bit for bit, as functions that return what went
// wrong.
//
// A list of problems instead of assertions, so that one case can be run over many models by one
// program.
#pragma once

#include <string>
#include <vector>

#include "model/harness.h"

namespace skippy::model_test {

using Problems = std::vector<std::string>;

// length: prompt tokens; boundary: a grid position in it. Both far enough to wrap the family's
// window ring.
struct CaseSize {
  Pos length = 700;
  Pos boundary = 640;
  Pos early_boundary = 128;  // 0: none
  int generated = 8;
};

// Rows and snapshot exported at a boundary, imported into another lane and into a fresh context:
// the suffix gives the logits of the cold run, and so does what is generated after it.
Problems RestoredEqualsCold(const llama::Model& model, const RunSetup& setup, const CaseSize& size);
// An import that ends inside a page equals the original lane cut back to that position.
Problems PartialPageEqualsCut(const llama::Model& model, const RunSetup& setup,
                              const CaseSize& size);
// A copied sequence goes on like the original, and the original is untouched.
Problems CopyEqualsOriginal(const llama::Model& model, const RunSetup& setup, const CaseSize& size);
// Truncate and run again equals the cold run where it is allowed; where not, the lane is unchanged.
Problems TruncatedEqualsCold(const llama::Model& model, const RunSetup& setup,
                             const CaseSize& size);
// A refused import leaves an empty lane and later results unchanged.
Problems FailedImportLeavesNoTrace(const llama::Model& model, const RunSetup& setup,
                                   const CaseSize& size);
// Prefill and decode of other lanes between the steps change nothing.
Problems OtherLanesChangeNothing(const llama::Model& model, const RunSetup& setup,
                                 const CaseSize& size);
// State that decode steps produced, restored: the same continuation.
Problems DecodedRowsRestore(const llama::Model& model, const RunSetup& setup, const CaseSize& size);

// Restores in a context of one lane, where llama.cpp has a single stream.
Problems OneLaneRestores(const llama::Model& model, const RunSetup& setup, const CaseSize& size);

// A page's state depends on all that stands before it: the same tokens at the same positions behind
// another prefix have other bits, and going on from them gives other logits than the cold run. So
// no page can be reused but behind its own prefix.
Problems PageBehindAnotherPrefixDiffers(const llama::Model& model, const RunSetup& setup);

struct NamedCase {
  const char* name;
  Problems (*run)(const llama::Model&, const RunSetup&, const CaseSize&);
};
const std::vector<NamedCase>& AllCases();

}  // namespace skippy::model_test
