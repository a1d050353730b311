#include "bench/optimum.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "skippy/random.h"

namespace skippy::bench {
namespace {

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

// A request's blocks as nodes of the prefix tree: a node is a block and all that stands before it.
struct Tree {
  std::vector<std::vector<std::uint32_t>> paths;  // of each request
  std::vector<std::uint32_t> tokens;              // of each node
  std::vector<std::uint32_t> depth;
};

struct PairHash {
  std::size_t operator()(const std::pair<std::uint32_t, std::uint64_t>& key) const {
    return SplitMix64(key.second) ^ key.first;
  }
};

Tree Grow(const Trace& trace) {
  Tree tree;
  std::unordered_map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t, PairHash> nodes;
  constexpr std::uint32_t kRoot = std::numeric_limits<std::uint32_t>::max();
  for (const TraceRequest& request : trace.requests) {
    std::vector<std::uint32_t>& path = tree.paths.emplace_back();
    std::uint32_t left = request.input_tokens;
    std::uint32_t parent = kRoot;
    for (const std::uint64_t block : request.blocks) {
      const std::uint32_t size = std::min(left, trace.block_tokens);
      left -= size;
      const auto [at, fresh] =
          nodes.try_emplace({parent, block}, static_cast<std::uint32_t>(tree.tokens.size()));
      if (fresh) {
        tree.tokens.push_back(size);
        tree.depth.push_back(static_cast<std::uint32_t>(path.size()));
      }
      parent = at->second;
      path.push_back(parent);
    }
  }
  return tree;
}

// For each request and block of its path: the next request that uses it.
std::vector<std::vector<std::size_t>> NextUses(const Tree& tree) {
  std::vector<std::vector<std::size_t>> next(tree.paths.size());
  std::vector<std::size_t> seen(tree.tokens.size(), kNever);
  for (std::size_t i = tree.paths.size(); i-- > 0;) {
    for (const std::uint32_t node : tree.paths[i]) {
      next[i].push_back(seen[node]);
      seen[node] = i;
    }
  }
  return next;
}

}  // namespace

Optimum PerfectTree(const Trace& trace) {
  return KnowingTheFuture(trace, std::numeric_limits<std::uint64_t>::max());
}

Optimum KnowingTheFuture(const Trace& trace, std::uint64_t cap_tokens) {
  const Tree tree = Grow(trace);
  const auto next = NextUses(tree);
  // What is kept, by next use and then depth: the last is dropped first, so children before
  // parents.
  using Key = std::pair<std::pair<std::size_t, std::uint32_t>, std::uint32_t>;
  std::set<Key> kept;
  std::vector<std::size_t> next_use(tree.tokens.size(), kNever);
  std::vector<bool> is_kept(tree.tokens.size(), false);
  std::uint64_t kept_tokens = 0;
  Optimum optimum;
  for (std::size_t i = 0; i < tree.paths.size(); ++i) {
    const std::vector<std::uint32_t>& path = tree.paths[i];
    for (std::size_t at = 0; at < path.size(); ++at) {
      const std::uint32_t node = path[at];
      (is_kept[node] ? optimum.cached_tokens : optimum.evaluated_tokens) += tree.tokens[node];
      if (is_kept[node]) kept.erase({{next_use[node], tree.depth[node]}, node});
      if (!is_kept[node]) kept_tokens += tree.tokens[node];
      is_kept[node] = true;
      next_use[node] = next[i][at];
      kept.insert({{next_use[node], tree.depth[node]}, node});
    }
    while (kept_tokens > cap_tokens) {
      const auto last = std::prev(kept.end());
      is_kept[last->second] = false;
      kept_tokens -= tree.tokens[last->second];
      kept.erase(last);
    }
  }
  return optimum;
}

}  // namespace skippy::bench
