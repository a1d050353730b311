#include "llama/top_k.h"

#include <algorithm>

namespace skippy::llama {
namespace {

constexpr std::size_t kBlock =
    64;  // logits compared with the threshold at once, in vector registers

bool Before(const llama_token_data& a, const llama_token_data& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

float Largest(const float* logits) {
  float lanes[16];
  std::copy(logits, logits + 16, lanes);
  for (std::size_t i = 16; i < kBlock; i += 16)
    for (std::size_t lane = 0; lane < 16; ++lane)
      lanes[lane] = lanes[lane] < logits[i + lane] ? logits[i + lane] : lanes[lane];
  return *std::max_element(lanes, lanes + 16);
}

}  // namespace

void TopK(std::span<const float> logits, std::size_t k, std::vector<llama_token_data>& out) {
  k = std::min(k, logits.size());
  out.clear();
  if (k == 0) return;
  const auto candidate = [&](std::size_t id) {
    return llama_token_data{.id = static_cast<llama_token>(id), .logit = logits[id], .p = 0.0F};
  };
  // A heap of the best so far, the worst of them on top.
  for (std::size_t id = 0; id < k; ++id) out.push_back(candidate(id));
  std::make_heap(out.begin(), out.end(), Before);
  const auto offer = [&](std::size_t id) {
    // Ids rise, so an equal logit comes too late.
    if (logits[id] <= out.front().logit) return;
    std::pop_heap(out.begin(), out.end(), Before);
    out.back() = candidate(id);
    std::push_heap(out.begin(), out.end(), Before);
  };
  std::size_t id = k;
  for (; id + kBlock <= logits.size(); id += kBlock) {
    if (Largest(logits.data() + id) <= out.front().logit) continue;
    for (std::size_t i = id; i < id + kBlock; ++i) offer(i);
  }
  for (; id < logits.size(); ++id) offer(id);
  std::sort_heap(out.begin(), out.end(), Before);
}

}  // namespace skippy::llama
