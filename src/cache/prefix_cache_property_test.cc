// PrefixCache against a plain model (a map of every prefix to what was recorded at its end), over
// random shapes, page sizes, caps and sequences of calls. Payloads are functions of the prefix, so
// each restored byte is checked; the self-check runs after each call.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "cache/cache_testing.h"
#include "skippy/prefix_cache.h"

namespace skippy::cache {
namespace {

constexpr Pos kGridStep = 4;

struct Config {
  int shape = 0;
  std::uint32_t page_tokens = 1;
  bool capped = false;
  std::uint64_t max_bytes = 0;
  std::uint64_t max_namespace_bytes = 0;
  std::uint64_t max_logits_bytes = 0;
  std::uint64_t max_entries = 0;
  std::uint32_t max_tombstones = 0;
  bool benefit = false;
  bool colliding = false;
};

MemoryShape ShapeOf(int index) {
  MemoryShape shape;
  shape.logits_bytes = 24;
  switch (index) {
    case 0: shape.kv_row_bytes = 16; break;  // attention
    case 1: shape.kv_row_bytes = 3; break;   // MLA: narrow
    case 2:
      shape.kv_row_bytes = 8;
      shape.window_row_bytes = 24;
      shape.window_tokens = 5;
      break;
    case 3: shape.snapshot_bytes = 64; break;  // recurrent
    case 4:
      shape.kv_row_bytes = 8;
      shape.snapshot_bytes = 64;
      break;  // hybrid
    case 5:   // hybrid, window
      shape.kv_row_bytes = 8;
      shape.window_row_bytes = 8;
      shape.window_tokens = 3;
      shape.snapshot_bytes = 40;
      break;
    default:
      shape.window_row_bytes = 8;
      shape.window_tokens = 4;
      break;  // window alone
  }
  return shape;
}
constexpr int kShapes = 7;

CacheOptions OptionsOf(const Config& config) {
  CacheOptions options;
  options.shape = ShapeOf(config.shape);
  options.page_tokens = config.page_tokens;
  options.digest = config.colliding ? &CollidingDigest : &Blake3;
  options.max_tombstones = config.max_tombstones;
  options.eviction =
      config.benefit ? EvictionPolicyKind::kBenefitPerByte : EvictionPolicyKind::kLru;
  if (config.capped) {
    options.max_bytes = config.max_bytes;
    options.max_namespace_bytes = config.max_namespace_bytes;
    options.max_logits_bytes = config.max_logits_bytes;
    options.max_entries = config.max_entries;
  }
  return options;
}

enum class Call {
  kRecord,
  kBegin,
  kCommit,
  kAbort,
  kLookup,
  kHold,
  kRelease,
  kCondemn,
  kPin,
  kUnpin,
  kClear
};

struct Step {
  Call call = Call::kLookup;
  std::uint32_t base = 0;    // which known prompt it starts from
  std::uint32_t cut = 0;     // how much of it
  std::vector<int> tail;     // tokens of a small alphabet after it
  std::uint32_t detail = 0;  // flags
};

std::ostream& operator<<(std::ostream& out, const Step& step) {
  out << "{call " << static_cast<int>(step.call) << " base " << step.base << " cut " << step.cut
      << " tail ";
  for (const int t : step.tail) out << t;
  return out << " detail " << step.detail << "}";
}

std::ostream& operator<<(std::ostream& out, const Config& c) {
  return out << "{shape " << c.shape << " page " << c.page_tokens << " capped " << c.capped
             << " bytes " << c.max_bytes << " ns " << c.max_namespace_bytes << " logits "
             << c.max_logits_bytes << " entries " << c.max_entries << " tombstones "
             << c.max_tombstones << " benefit " << c.benefit << " colliding " << c.colliding << "}";
}

rc::Gen<Step> StepGen(bool with_loss) {
  const std::vector<Call> all{Call::kRecord,  Call::kRecord, Call::kRecord, Call::kRecord,
                              Call::kBegin,   Call::kCommit, Call::kCommit, Call::kAbort,
                              Call::kLookup,  Call::kLookup, Call::kLookup, Call::kHold,
                              Call::kRelease, Call::kPin,    Call::kUnpin};
  std::vector<Call> calls = all;
  if (with_loss) calls.insert(calls.end(), {Call::kCondemn, Call::kClear});
  return rc::gen::build<Step>(
      rc::gen::set(&Step::call, rc::gen::elementOf(calls)),
      rc::gen::set(&Step::base, rc::gen::inRange<std::uint32_t>(0, 16)),
      rc::gen::set(&Step::cut,
                   rc::gen::elementOf(std::vector<std::uint32_t>{
                       1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 99, 99, 99, 99, 99})),
      rc::gen::set(&Step::tail,
                   rc::gen::scale(0.12, rc::gen::container<std::vector<int>>(
                                            rc::gen::resize(100, rc::gen::inRange(0, 3))))),
      rc::gen::set(&Step::detail, rc::gen::arbitrary<std::uint32_t>()));
}

rc::Gen<Config> ConfigGen(bool capped) {
  return rc::gen::build<Config>(
      rc::gen::set(&Config::shape, rc::gen::inRange(0, kShapes)),
      rc::gen::set(&Config::page_tokens,
                   rc::gen::elementOf(std::vector<std::uint32_t>{1, 2, 4, 8})),
      rc::gen::set(&Config::capped, rc::gen::just(capped)),
      rc::gen::set(&Config::max_bytes, rc::gen::inRange<std::uint64_t>(0, 1500)),
      rc::gen::set(&Config::max_namespace_bytes,
                   rc::gen::elementOf(std::vector<std::uint64_t>{0, 0, 0, 100, 300, 600})),
      rc::gen::set(&Config::max_logits_bytes,
                   rc::gen::elementOf(std::vector<std::uint64_t>{0, 24, 60, 2000})),
      rc::gen::set(&Config::max_entries,
                   rc::gen::elementOf(std::vector<std::uint64_t>{1, 2, 3, 8, 1000, 1000})),
      rc::gen::set(&Config::max_tombstones,
                   rc::gen::elementOf(std::vector<std::uint32_t>{0, 2, 100})),
      rc::gen::set(&Config::benefit, rc::gen::arbitrary<bool>()),
      rc::gen::set(&Config::colliding, rc::gen::arbitrary<bool>()));
}

// Everything recorded at the end of one prefix: the row of its last token, and the state after it.
struct Facts {
  std::array<std::optional<Provenance>, kComponentCount> at;
};

class Model {
 public:
  using Key = std::pair<int, Tokens>;
  explicit Model(const MemoryShape& shape) : shape_(shape) {}

  bool Knows(int ns, const Tokens& prefix) const { return facts_.count({ns, prefix}) > 0; }
  std::optional<Provenance> At(int ns, TokenSpan tokens, std::size_t length, Component c) const {
    const auto it = facts_.find(
        {ns, Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(length))});
    return it == facts_.end() ? std::nullopt : it->second.at[static_cast<std::size_t>(c)];
  }
  void Learn(int ns, TokenSpan tokens, std::size_t length, Component c, Provenance p) {
    auto& known =
        facts_[{ns, Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(length))}]
            .at[static_cast<std::size_t>(c)];
    if (!known || (p == Provenance::kGrid && *known != Provenance::kGrid)) known = p;
  }
  void LearnText(int ns, TokenSpan tokens) {
    for (std::size_t n = 1; n <= tokens.size(); ++n) {
      facts_[{ns, Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n))}];
    }
  }
  Pos Matched(int ns, TokenSpan tokens) const {
    std::size_t n = 0;
    while (n < tokens.size() &&
           Knows(ns, Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n) + 1)))
      ++n;
    return static_cast<Pos>(n);
  }
  bool Usable(int ns, TokenSpan tokens, Pos b, Exactness exactness) const {
    if (b == 0 || b > tokens.size()) return false;
    if (exactness == Exactness::kBit && b % kGridStep != 0) return false;
    const auto there = [&](std::size_t length, Component c) {
      const auto p = At(ns, tokens, length, c);
      return p && (exactness == Exactness::kToken || *p == Provenance::kGrid);
    };
    for (Pos p = 0; p < b; ++p) {
      if (shape_.HasKv() && !there(p + std::size_t{1}, Component::kKv)) return false;
      if (shape_.HasWindow() && p >= shape_.WindowBegin(b) &&
          !there(p + std::size_t{1}, Component::kWindow))
        return false;
    }
    return !shape_.HasSnapshot() || there(b, Component::kSnapshot);
  }
  // Longest of the boundaries that may be returned; second: it is a decoded result.
  std::pair<Pos, bool> Expect(int ns, const LookupQuery& query) const {
    const Pos n = static_cast<Pos>(query.tokens.size());
    const auto logits = n > 0 ? At(ns, query.tokens, n, Component::kLogits) : std::nullopt;
    if (query.allow_decoded_result && logits && Usable(ns, query.tokens, n, query.exactness) &&
        (query.exactness == Exactness::kToken || *logits == Provenance::kGrid)) {
      return {n, true};
    }
    for (Pos b = std::min(query.max_boundary, n); b > 0; --b) {
      if (Usable(ns, query.tokens, b, query.exactness)) return {b, false};
    }
    return {0, false};
  }

 private:
  const MemoryShape shape_;
  std::map<Key, Facts> facts_;
};

class Harness {
 public:
  explicit Harness(const Config& config)
      : config_(config),
        options_(OptionsOf(config)),
        cache_(options_, clock_),
        model_(options_.shape) {
    RC_ASSERT(options_.Validate().empty());
    prompts_.push_back({});
  }

  void Run(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      clock_.Advance(step.detail % 3);
      Apply(step);
      const Status ok = cache_.SelfCheck();
      if (!ok) RC_FAIL(ok.error().message);
      CheckPinned();
      const CacheStats stats = cache_.Stats();
      trace_.insert(trace_.end(),
                    {stats.physical_bytes, stats.entries, stats.hits, stats.evicted_bytes});
    }
    while (!hits_.empty()) Release(0);
    tickets_.clear();
    cache_.Clear();
    const CacheStats stats = cache_.Stats();
    RC_ASSERT(stats.physical_bytes == 0U);
    RC_ASSERT(stats.entries == 0U);
    RC_ASSERT(stats.known_tokens == 0U);
  }
  const std::vector<std::uint64_t>& trace() const { return trace_; }

 private:
  struct OpenTicket {
    RecordTicket ticket;
    int ns;
    Tokens tokens;
    Provenance provenance;
  };
  struct HeldHit {
    PinnedHit hit;
    Tokens tokens;
    bool only_grid;
  };

  static Namespace Ns(int ns) {
    const std::byte b{static_cast<unsigned char>(ns)};
    return Namespace{Blake3({&b, 1})};
  }

  Tokens PromptOf(const Step& step) {
    const Tokens& base = prompts_[step.base % prompts_.size()];
    const std::size_t cut = std::min<std::size_t>(step.cut, base.size());
    Tokens tokens(base.begin(), base.begin() + static_cast<std::ptrdiff_t>(cut));
    for (const int t : step.tail) tokens.push_back(t);
    if (tokens.size() > 48) tokens.resize(48);
    return tokens;
  }

  void Apply(const Step& step) {
    const Tokens tokens = PromptOf(step);
    const int ns = static_cast<int>(step.detail & 1);
    switch (step.call) {
      case Call::kRecord:
        if (Begin(step, ns, tokens)) Commit(tickets_.size() - 1);
        break;
      case Call::kBegin:
        if (tickets_.size() < 4) Begin(step, ns, tokens);
        break;
      case Call::kCommit:
        if (!tickets_.empty()) Commit(step.base % tickets_.size());
        break;
      case Call::kAbort:
        if (!tickets_.empty()) tickets_.erase(tickets_.begin() + step.base % tickets_.size());
        break;
      case Call::kLookup: Lookup(step, ns, tokens, false); break;
      case Call::kHold: Lookup(step, ns, tokens, hits_.size() < 4); break;
      case Call::kRelease:
        if (!hits_.empty()) Release(step.base % hits_.size());
        break;
      case Call::kCondemn:
        if (!hits_.empty()) {
          cache_.Condemn(std::move(hits_[step.base % hits_.size()].hit));
          hits_.erase(hits_.begin() + step.base % hits_.size());
          pinned_.clear();
        }
        break;
      case Call::kPin:
        if (cache_.PinPrefix(Ns(ns), tokens)) {
          LookupQuery query{
              .ns = Ns(ns), .tokens = tokens, .max_boundary = static_cast<Pos>(tokens.size())};
          query.allow_decoded_result = false;
          query.peek = true;
          pinned_[{ns, tokens}] = cache_.Lookup(query).hit->boundary();
        }
        break;
      case Call::kUnpin: {
        const bool was = pinned_.erase({ns, tokens}) > 0;
        const bool unpinned = cache_.UnpinPrefix(Ns(ns), tokens).has_value();
        RC_ASSERT(unpinned || !was);
        break;
      }
      case Call::kClear:
        if (step.detail & 2) {
          cache_.Clear();
          pinned_.clear();
        } else {
          cache_.ClearNamespace(Ns(ns));
          std::erase_if(pinned_, [&](const auto& entry) { return entry.first.first == ns; });
        }
        break;
    }
  }

  bool Begin(const Step& step, int ns, const Tokens& tokens) {
    const std::uint32_t d = step.detail >> 1;
    RecordRequest request;
    request.ns = Ns(ns);
    request.tokens = tokens;
    request.provenance = static_cast<Provenance>(d % 3);
    request.rows_available_from = (d >> 2) % 4 == 0 ? (d >> 4) % 8 : 0;
    request.window_available_from = (d >> 7) % 4 == 0 ? (d >> 9) % 16 : 0;
    request.snapshot = (d >> 13) % 4 != 0;
    request.logits = (d >> 15) % 2 == 0;
    request.prompt_end = (d >> 16) % 2 == 0;
    RecordPlan plan = cache_.BeginRecord(request);
    trace_.push_back(static_cast<std::uint64_t>(plan.outcome));
    RC_ASSERT(plan.ticket.has_value() == (plan.outcome == RecordOutcome::kPlanned));
    if (!config_.capped) CheckPlan(ns, request, plan);
    if (!plan.ticket) return false;
    for (const RecordTicket::Rows& rows : plan.ticket->rows()) {
      RC_ASSERT(!rows.positions.empty());
      RC_ASSERT(rows.positions.begin / config_.page_tokens ==
                (rows.positions.end - 1) / config_.page_tokens);
      RC_ASSERT(rows.positions.end <= tokens.size());
      RC_ASSERT(reinterpret_cast<std::uintptr_t>(rows.buffer.data()) % alignof(std::max_align_t) ==
                0U);
      RC_ASSERT(rows.positions.begin >= (rows.component == Component::kKv
                                             ? request.rows_available_from
                                             : request.window_available_from));
      // Never committed, never seen: garbage until then.
      std::fill(rows.buffer.begin(), rows.buffer.end(), std::byte{0xdb});
    }
    tickets_.push_back({std::move(*plan.ticket), ns, tokens, request.provenance});
    prompts_.push_back(tokens);
    if (prompts_.size() > 16) prompts_.erase(prompts_.begin() + 1);
    return true;
  }

  // Without caps the plan is exactly what the model lacks.
  void CheckPlan(int ns, const RecordRequest& request, const RecordPlan& plan) {
    std::set<Pos> kv;
    std::set<Pos> window;
    if (plan.ticket) {
      for (const RecordTicket::Rows& rows : plan.ticket->rows()) {
        for (Pos p = rows.positions.begin; p < rows.positions.end; ++p) {
          RC_ASSERT((rows.component == Component::kKv ? kv : window).insert(p).second);
        }
      }
    }
    const Pos n = static_cast<Pos>(request.tokens.size());
    const bool grid = request.provenance == Provenance::kGrid;
    const MemoryShape& shape = options_.shape;
    bool nothing = true;
    bool gap = false;
    for (Pos p = 0; p < n; ++p) {
      const auto want = [&](Component c, Pos from) {
        const auto known = model_.At(ns, request.tokens, p + std::size_t{1}, c);
        return p >= from && (!known || (grid && *known != Provenance::kGrid));
      };
      if (shape.HasKv()) {
        const bool missing = !model_.At(ns, request.tokens, p + std::size_t{1}, Component::kKv);
        gap = gap || (missing && p < request.rows_available_from);
        const bool wanted = want(Component::kKv, request.rows_available_from);
        nothing = nothing && !wanted;
        if (plan.ticket) RC_ASSERT((kv.count(p) > 0) == wanted);
      }
      if (shape.HasWindow() && p >= shape.WindowBegin(n)) {
        const bool wanted = want(Component::kWindow, request.window_available_from);
        nothing = nothing && !wanted;
        if (plan.ticket) RC_ASSERT((window.count(p) > 0) == wanted);
      }
    }
    if (gap) {
      RC_ASSERT(plan.outcome == RecordOutcome::kGap);
      return;
    }
    if (shape.HasSnapshot() && request.snapshot && n > 0) {
      const auto known = model_.At(ns, request.tokens, n, Component::kSnapshot);
      const bool wanted = !known || (grid && *known != Provenance::kGrid);
      nothing = nothing && !wanted;
      if (plan.ticket) RC_ASSERT(!plan.ticket->snapshot().empty() == wanted);
    }
    if (!nothing) RC_ASSERT(plan.outcome == RecordOutcome::kPlanned);
    if (plan.outcome == RecordOutcome::kPlanned && nothing)
      RC_ASSERT(!plan.ticket->logits().empty());
  }

  void Commit(std::size_t index) {
    OpenTicket open = std::move(tickets_[index]);
    tickets_.erase(tickets_.begin() + static_cast<std::ptrdiff_t>(index));
    FillTicket(open.ticket, open.tokens, open.provenance);
    struct Row {
      Component component;
      PosRange range;
    };
    std::vector<Row> rows;
    for (const auto& r : open.ticket.rows()) rows.push_back({r.component, r.positions});
    const bool snapshot = !open.ticket.snapshot().empty();
    const bool logits = !open.ticket.logits().empty();
    const bool committed = cache_.Commit(std::move(open.ticket)).has_value();
    trace_.push_back(committed ? 1 : 0);
    if (config_.capped) return;
    RC_ASSERT(committed);
    model_.LearnText(open.ns, open.tokens);
    for (const Row& row : rows) {
      for (Pos p = row.range.begin; p < row.range.end; ++p) {
        model_.Learn(open.ns, open.tokens, p + std::size_t{1}, row.component, open.provenance);
      }
    }
    if (snapshot)
      model_.Learn(open.ns, open.tokens, open.tokens.size(), Component::kSnapshot, open.provenance);
    if (logits)
      model_.Learn(open.ns, open.tokens, open.tokens.size(), Component::kLogits, open.provenance);
  }

  void Lookup(const Step& step, int ns, const Tokens& tokens, bool hold) {
    const std::uint32_t d = step.detail >> 1;
    LookupQuery query;
    query.ns = Ns(ns);
    query.tokens = tokens;
    query.max_boundary =
        d % 4 == 0 ? (d >> 2) % 40 : static_cast<Pos>(tokens.empty() ? 0 : tokens.size() - 1);
    query.allow_decoded_result = (d >> 8) % 2 == 0;
    query.exactness = (d >> 9) % 3 == 0 ? Exactness::kBit : Exactness::kToken;
    query.grid = kGridStep;
    query.peek = (d >> 11) % 4 == 0;
    LookupResult result = cache_.Lookup(query);
    const Pos boundary = result.hit ? result.hit->boundary() : 0;
    trace_.insert(trace_.end(),
                  {boundary, static_cast<std::uint64_t>(result.reason), result.first_different});
    if (!config_.capped) {
      const auto [expected, decoded] = model_.Expect(ns, query);
      RC_ASSERT(boundary == expected);
      RC_ASSERT((result.hit && result.hit->decoded_result()) == decoded);
      RC_ASSERT(result.first_different == model_.Matched(ns, tokens));
    }
    RC_ASSERT(result.first_different >= boundary);
    RC_ASSERT(result.first_different <= tokens.size());
    if (result.reason == MissReason::kNeverSeen) RC_ASSERT(result.first_different == 0U);
    if (result.reason == MissReason::kDiverged) RC_ASSERT(result.first_different < tokens.size());
    if (result.reason == MissReason::kNoBoundaryState) RC_ASSERT(result.first_different > boundary);
    if (!result.hit) return;
    RC_ASSERT(boundary <= query.max_boundary || result.hit->decoded_result());
    const bool bit = query.exactness == Exactness::kBit;
    if (bit) RC_ASSERT(boundary % kGridStep == 0U);
    const std::string problem = CheckHit(*result.hit, tokens, options_.shape, bit);
    if (!problem.empty()) RC_FAIL(problem);
    if (hold) hits_.push_back({std::move(*result.hit), tokens, bit});
  }

  void Release(std::size_t index) {
    HeldHit held = std::move(hits_[index]);
    hits_.erase(hits_.begin() + static_cast<std::ptrdiff_t>(index));
    const std::string problem = CheckHit(held.hit, held.tokens, options_.shape, held.only_grid);
    if (!problem.empty()) RC_FAIL("a held hit changed: " + problem);
  }

  void CheckPinned() {
    for (const auto& [key, boundary] : pinned_) {
      LookupQuery query{.ns = Ns(key.first), .tokens = key.second, .max_boundary = boundary};
      query.allow_decoded_result = false;
      query.peek = true;
      const LookupResult result = cache_.Lookup(query);
      RC_ASSERT(result.hit.has_value());
      RC_ASSERT(result.hit->boundary() == boundary);
    }
  }

  const Config config_;
  const CacheOptions options_;
  ManualClock clock_;
  PrefixCache cache_;
  Model model_;
  std::vector<Tokens> prompts_;
  std::vector<OpenTicket> tickets_;
  std::vector<HeldHit> hits_;
  std::map<std::pair<int, Tokens>, Pos> pinned_;
  std::vector<std::uint64_t> trace_;
};

std::vector<Step> ManySteps(bool with_loss) {
  return *rc::gen::scale(1.5, rc::gen::container<std::vector<Step>>(StepGen(with_loss)));
}

RC_GTEST_PROP(PrefixCacheProperty, WithoutCapsItReturnsExactlyWhatTheModelKnows, ()) {
  const Config config = *ConfigGen(false);
  Harness(config).Run(ManySteps(false));
}

RC_GTEST_PROP(PrefixCacheProperty, UnderTinyCapsEveryHitIsTrueAndEveryInvariantHolds, ()) {
  const Config config = *ConfigGen(true);
  Harness(config).Run(ManySteps(true));
}

RC_GTEST_PROP(PrefixCacheProperty, SameCallsGiveSameResultsWhateverTheDigest, ()) {
  Config config = *ConfigGen(true);
  const std::vector<Step> steps = ManySteps(true);
  config.colliding = false;
  Harness first(config);
  first.Run(steps);
  Harness again(config);
  again.Run(steps);
  RC_ASSERT(first.trace() == again.trace());
  config.colliding = true;
  Harness colliding(config);
  colliding.Run(steps);
  RC_ASSERT(first.trace() == colliding.trace());
}

}  // namespace
}  // namespace skippy::cache
