#include "skippy/snapshot_planner.h"

#include <algorithm>
#include <cstdint>

namespace skippy {
namespace {

// The last message starts are kept one by one: an edit or a retry of the last exchange resumes
// there.
constexpr std::size_t kLastMessageStarts = 3;

class Planner {
 public:
  explicit Planner(const SnapshotPlanInput& input) : input_(input) {}

  std::vector<Pos> Plan() {
    // First what the prompt alone decides, wherever it is resumed; then what depends on what is
    // stored.
    AddMessageStarts();
    // Off the grid the prompt end itself is no boundary for a bit-exact reader: the last one before
    // it is.
    if (input_.grid_only && input_.grid > 0) plan_.push_back(OnGrid(input_.prompt_end));
    Add(input_.prompt_end);
    Normalise();
    AddSpacing();
    for (const Pos junction : input_.junctions) Add(junction);
    Normalise();
    std::erase_if(plan_, [&](Pos p) { return p <= input_.resume; });
    return std::move(plan_);
  }

 private:
  Pos OnGrid(Pos p) const { return p - p % input_.grid; }

  void Add(Pos p) {
    if (input_.grid_only && p != input_.prompt_end) p = input_.grid > 0 ? OnGrid(p) : 0;
    if (p > 0 && p <= input_.prompt_end) plan_.push_back(p);
  }

  void Normalise() {
    std::sort(plan_.begin(), plan_.end());
    plan_.erase(std::unique(plan_.begin(), plan_.end()), plan_.end());
  }

  void AddMessageStarts() {
    const auto starts = input_.message_starts;
    const auto first = std::find_if(starts.begin(), starts.end(), [](Pos p) { return p > 0; });
    if (first != starts.end()) Add(*first);
    std::size_t kept = 0;
    std::uint64_t next_distance = 0;  // 64 bits: twice a distance may pass the range of Pos
    for (auto it = starts.rbegin(); it != starts.rend(); ++it) {
      if (*it >= input_.prompt_end) continue;
      const std::uint64_t distance = input_.prompt_end - *it;
      if (kept >= kLastMessageStarts && distance < next_distance) continue;
      Add(*it);
      ++kept;
      next_distance = 2 * distance;
    }
  }

  // Every multiple of the step, also near other boundaries: a chunk ends there anyway, so only
  // bytes could be saved, and a prompt's last tokens are often its own alone.
  void AddSpacing() {
    if (input_.spacing == 0) return;
    std::uint64_t step = input_.spacing;
    if (input_.grid > 0) step = (step + input_.grid - 1) / input_.grid * input_.grid;
    for (std::uint64_t p = step; p < input_.prompt_end; p += step) {
      plan_.push_back(static_cast<Pos>(p));
    }
  }

  const SnapshotPlanInput& input_;
  std::vector<Pos> plan_;
};

}  // namespace

std::vector<Pos> PlanSnapshots(const SnapshotPlanInput& input) {
  if (input.resume >= input.prompt_end) return {};
  return Planner(input).Plan();
}

}  // namespace skippy
