// Arena: one setting of one subject, ready for evidence: a runtime under test, a runtime that only
// ever computes cold, the texts, and the cold answers so far.
//
// The cold reference is the production engine with its cache off, on lanes that were cleared: same
// chunk schedule, nothing reused. Where memory allows (Make) it runs on a runtime of its own, so
// that nothing that a restore leaves behind can reach it.
//
// Threads: one. Cost: a cold answer is computed once a request and kept, vocabulary * 4 bytes a
// token.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "certify/compare.h"
#include "certify/subject.h"
#include "skippy/clock.h"

namespace skippy::certify {

// A request in the certifier's terms.
struct Ask {
  std::vector<Token> prompt;
  std::uint32_t max_tokens = 8;
  std::uint64_t seed = 0;  // 0: greedy
  std::vector<Pos> message_starts = {};
  bool allow_decoded_result = false;
  Pos abort_after = 0;  // the client leaves when so many prompt tokens are done; 0: stays
};

// Lengths of the texts. All hold the whole story of the setting: two whole chunks before the middle
// rewind's boundary, and a window's ring turned at least once.
struct Sizes {
  Pos grid = 0;                  // a prompt that ends on the grid
  Pos base = 0;                  // one that does not, a little longer
  Pos extra = 0;                 // what a next turn adds
  std::uint32_t generated = 8;   // tokens of most answers
  std::uint32_t continued = 64;  // of the long continuations
  Pos Needed() const { return base + 2 * extra + continued + 2 * generated; }
};
Sizes SizesFor(const runtime::RuntimeInfo& info, std::uint32_t continued);

struct ArenaOptions {
  std::uint64_t seed = 1;
  std::uint32_t continued = 64;
  std::uint32_t page_tokens = 64;
};

class Arena {
 public:
  // Two runtimes. kInvalidArgument when the context is too small for the texts (the message says
  // what is needed); the subject's error when it cannot have the setting.
  static Result<std::unique_ptr<Arena>> Make(Subject& subject,
                                             const runtime::RuntimeOptions& runtime,
                                             const ArenaOptions& options);
  // One runtime for both, which outlives the arena; its lanes are cleared again and again.
  Arena(Subject& subject, runtime::Runtime& shared, const Sizes& sizes,
        const ArenaOptions& options);

  const runtime::RuntimeInfo& info() const { return tested_->info(); }
  const MemoryShape& shape() const { return tested_->info().shape; }
  const Sizes& sizes() const { return sizes_; }
  const ArenaOptions& options() const { return options_; }
  Subject& subject() { return subject_; }
  const Clock& clock() const { return clock_; }

  // With all lanes empty.
  runtime::Runtime& Tested();
  // As the last user left it.
  runtime::Runtime& tested() { return *tested_; }

  // Text `which` of this arena: 0 is the base text, others have nothing to do with it.
  std::vector<Token> Text(std::size_t count, std::uint64_t which);
  Result<std::unique_ptr<runtime::Sampler>> MakeSampler(std::uint64_t seed);
  Pos FloorToGrid(Pos position) const { return position - position % info().chunk; }

  Result<const Answer*> Cold(const Ask& ask);
  void ForgetColdAnswers() { answers_.clear(); }

  // The largest logit difference that two other chunk schedules make in cold runs of the base text
  // and a greedy continuation of it. Measured once.
  Result<double> Noise();

 private:
  Arena(Subject& subject, std::unique_ptr<runtime::Runtime> tested,
        std::unique_ptr<runtime::Runtime> cold, const Sizes& sizes, const ArenaOptions& options);
  Result<double> MeasureNoise();

  Subject& subject_;
  SteadyClock clock_;
  std::unique_ptr<runtime::Runtime> owned_tested_;
  std::unique_ptr<runtime::Runtime> owned_cold_;
  runtime::Runtime* tested_;
  runtime::Runtime* cold_;
  Sizes sizes_;
  ArenaOptions options_;
  using Key = std::tuple<std::vector<Token>, std::uint32_t, std::uint64_t>;
  std::map<Key, Answer> answers_;
  std::optional<double> noise_;
};

void ClearLanes(runtime::Runtime& runtime);

}  // namespace skippy::certify
