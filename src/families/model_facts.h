// What a model file says about itself: the numbers and texts of its metadata and the names of its
// tensors. The runtime's side fills it (src/llama/model_facts.h); nothing here reads files.
//
// Threads: plain data. Errors: none.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace skippy::families {

// A number, or one number a layer. Booleans are 0 and 1.
struct Numbers {
  std::vector<double> values;
  bool array = false;
};

struct ModelFacts {
  std::string architecture;  // general.architecture
  // Metadata by full key ("llama.block_count"); long arrays such as the vocabulary are left out.
  std::map<std::string, Numbers, std::less<>> numbers;
  std::map<std::string, std::string, std::less<>> texts;
  std::set<std::string, std::less<>> tensors;  // full names ("blk.0.attn_k_b.weight")
  std::uint64_t vocabulary = 0;                // tokens of the tokenizer; 0: it has none

  // For tests and callers that build facts by hand: the key without the architecture's prefix.
  void Set(const std::string& key, double value) {
    numbers[architecture + "." + key] = {{value}, false};
  }
  void SetLayers(const std::string& key, std::vector<double> values) {
    numbers[architecture + "." + key] = {std::move(values), true};
  }
};

}  // namespace skippy::families
