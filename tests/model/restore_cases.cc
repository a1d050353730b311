#include "model/restore_cases.h"

#include <fmt/format.h>

#include <algorithm>

namespace skippy::model_test {
namespace {

constexpr SeqId kFirst{0};
constexpr SeqId kSecond{1};
constexpr SeqId kThird{2};
constexpr Pos kPage =
    48;  // not a divisor of the chunk, so that pages and chunks end at different places

// Collects problems; a Result that holds an error is one.
class Checker {
 public:
  template <class T>
  bool Ok(const Result<T>& result, const std::string& what) {
    if (!result) problems_.push_back(fmt::format("{}: {}", what, result.error().message));
    return result.has_value();
  }
  bool That(bool holds, const std::string& what) {
    if (!holds) problems_.push_back(what);
    return holds;
  }
  Problems Take() { return std::move(problems_); }

 private:
  Problems problems_;
};

// With the window rows before those that the lane's end needs, so that it can be restored further
// back, too.
Result<SavedState> SaveAll(runtime::Runtime& runtime, SeqId lane) {
  return Save(runtime, lane, kPage, runtime.WindowHeldFrom(lane));
}

struct ColdRun {
  Logits logits;
  Continuation continuation;
};

// The rest of the prompt and some generated tokens.
Result<ColdRun> Finish(runtime::Runtime& runtime, SeqId lane, TokenSpan tokens, int generated) {
  ColdRun run;
  SKIPPY_TRY(run.logits, Prefill(runtime, lane, tokens, static_cast<Pos>(tokens.size())));
  SKIPPY_TRY(run.continuation, Generate(runtime, lane, run.logits, generated));
  return run;
}

void ExpectSame(Checker& check, const Result<ColdRun>& run, const ColdRun& cold,
                const std::string& what) {
  if (!check.Ok(run, what)) return;
  check.That(SameBits(run->logits, cold.logits), what + ": prompt logits differ from the cold run");
  check.That(SameBits(run->continuation, cold.continuation),
             what + ": continuation differs from the cold run");
}

struct Scene {
  std::unique_ptr<runtime::Runtime> runtime;
  std::vector<Token> tokens;
  SavedState saved;  // at size.boundary
  ColdRun cold;      // of lane kFirst, from an empty context
};

bool MakeScene(Checker& check, const llama::Model& model, const RunSetup& setup,
               const CaseSize& size, Pos boundary, Scene& scene) {
  scene.runtime = NewRuntime(model, setup);
  if (!check.That(scene.runtime != nullptr, "no runtime")) return false;
  scene.tokens = RandomPrompt(*scene.runtime, size.length, 7);
  if (!check.Ok(Prefill(*scene.runtime, kFirst, scene.tokens, boundary), "prefill")) return false;
  auto saved = SaveAll(*scene.runtime, kFirst);
  if (!check.Ok(saved, "save")) return false;
  scene.saved = std::move(*saved);
  auto cold = Finish(*scene.runtime, kFirst, scene.tokens, size.generated);
  if (!check.Ok(cold, "cold run")) return false;
  scene.cold = std::move(*cold);
  return true;
}

}  // namespace

Problems RestoredEqualsCold(const llama::Model& model, const RunSetup& setup,
                            const CaseSize& size) {
  Checker check;
  for (const Pos boundary : {size.boundary, size.early_boundary}) {
    if (boundary == 0) continue;
    Scene scene;
    if (!MakeScene(check, model, setup, size, boundary, scene)) break;
    runtime::Runtime& runtime = *scene.runtime;
    const std::string at = fmt::format(" at {}", boundary);
    if (check.Ok(RestoreInto(runtime, kSecond, scene.saved, scene.tokens, boundary),
                 "import" + at)) {
      // Rows that were not imported are not held, though llama.cpp has cells for them.
      const MemoryShape& shape = runtime.info().shape;
      check.That(
          runtime.WindowHeldFrom(kSecond) == (shape.HasWindow() ? shape.WindowBegin(boundary) : 0),
          "the restored lane holds other window rows than were given" + at);
      ExpectSame(check, Finish(runtime, kSecond, scene.tokens, size.generated), scene.cold,
                 "other lane" + at);
    }
    // Over a lane that holds something else.
    if (check.Ok(RestoreInto(runtime, kFirst, scene.saved, scene.tokens, boundary),
                 "import over" + at))
      ExpectSame(check, Finish(runtime, kFirst, scene.tokens, size.generated), scene.cold,
                 "same lane" + at);
    auto fresh = NewRuntime(model, setup);
    if (check.Ok(RestoreInto(*fresh, kThird, scene.saved, scene.tokens, boundary),
                 "import fresh" + at))
      ExpectSame(check, Finish(*fresh, kThird, scene.tokens, size.generated), scene.cold,
                 "fresh context" + at);
    // What was restored can be saved again, unchanged.
    if (check.Ok(RestoreInto(runtime, kSecond, scene.saved, scene.tokens, boundary),
                 "import again" + at)) {
      const auto again = SaveAll(runtime, kSecond);
      if (check.Ok(again, "save again" + at)) {
        check.That(again->kv == scene.saved.kv, "saved KV pages differ" + at);
        check.That(again->snapshot == scene.saved.snapshot, "saved snapshots differ" + at);
      }
    }
  }
  return check.Take();
}

Problems PartialPageEqualsCut(const llama::Model& model, const RunSetup& setup,
                              const CaseSize& size) {
  Checker check;
  Scene scene;
  if (!MakeScene(check, model, setup, size, size.boundary, scene)) return check.Take();
  runtime::Runtime& runtime = *scene.runtime;
  if (runtime.info().shape.HasSnapshot()) {
    // Recurrent state exists at the boundary only: any other end must be refused by the caller, and
    // a snapshot of the wrong size by the runtime.
    auto restore =
        MakeRestore(runtime.info().shape, kSecond, scene.saved, scene.tokens, size.boundary);
    restore.request.snapshot = restore.request.snapshot.first(restore.request.snapshot.size() - 1);
    check.That(!runtime.Import(restore.request), "a short snapshot was accepted");
    check.That(runtime.End(kSecond) == 0, "a refused import left rows");
    return check.Take();
  }
  const Pos end = size.boundary - kPage - 13;
  runtime.Clear(kFirst);
  if (!check.Ok(Prefill(runtime, kFirst, scene.tokens, size.boundary), "prefill"))
    return check.Take();
  if (!check.That(runtime.Truncate(kFirst, end), "truncate refused")) return check.Take();
  const auto cut = Finish(runtime, kFirst, scene.tokens, size.generated);
  if (!check.Ok(cut, "cut")) return check.Take();
  if (check.Ok(RestoreInto(runtime, kSecond, scene.saved, scene.tokens, end), "import"))
    ExpectSame(check, Finish(runtime, kSecond, scene.tokens, size.generated), *cut, "partial page");
  return check.Take();
}

Problems CopyEqualsOriginal(const llama::Model& model, const RunSetup& setup,
                            const CaseSize& size) {
  Checker check;
  Scene scene;
  if (!MakeScene(check, model, setup, size, size.boundary, scene)) return check.Take();
  runtime::Runtime& runtime = *scene.runtime;
  runtime.Clear(kFirst);
  if (!check.Ok(Prefill(runtime, kFirst, scene.tokens, size.boundary), "prefill") ||
      !check.Ok(runtime.Copy(kFirst, kThird), "copy"))
    return check.Take();
  check.That(runtime.End(kThird) == size.boundary, "the copy ends elsewhere");
  // An export at once, before any decode, must see the copied rows.
  const auto exported = SaveAll(runtime, kThird);
  if (check.Ok(exported, "save the copy")) {
    check.That(exported->kv == scene.saved.kv, "the copy's KV rows differ");
    check.That(exported->window == scene.saved.window, "the copy's window rows differ");
    check.That(exported->snapshot == scene.saved.snapshot, "the copy's snapshot differs");
  }
  check.That(!runtime.Copy(kFirst, kThird), "copying into a lane that holds rows was accepted");
  ExpectSame(check, Finish(runtime, kThird, scene.tokens, size.generated), scene.cold, "copy");
  ExpectSame(check, Finish(runtime, kFirst, scene.tokens, size.generated), scene.cold, "original");
  return check.Take();
}

Problems TruncatedEqualsCold(const llama::Model& model, const RunSetup& setup,
                             const CaseSize& size) {
  Checker check;
  Scene scene;
  if (!MakeScene(check, model, setup, size, size.boundary, scene)) return check.Take();
  runtime::Runtime& runtime = *scene.runtime;
  const MemoryShape& shape = runtime.info().shape;
  // From one ring turn back into the one before, within the last turn, and from further than a ring
  // holds.
  const std::pair<Pos, Pos> cuts[] = {
      {300, 192}, {size.length, size.boundary}, {size.length, size.early_boundary}};
  for (const auto& [from, end] : cuts) {
    if (from > size.length || end == 0) continue;
    const std::string at = fmt::format(" from {} to {}", from, end);
    runtime.Clear(kFirst);
    const auto before = Prefill(runtime, kFirst, scene.tokens, from);
    if (!check.Ok(before, "prefill" + at)) break;
    const bool allowed =
        !shape.HasSnapshot() && runtime.WindowHeldFrom(kFirst) <= shape.WindowBegin(end);
    check.That(runtime.Truncate(kFirst, end) == allowed,
               "truncate answered otherwise than expected" + at);
    check.That(runtime.End(kFirst) == (allowed ? end : from), "end after truncate" + at);
    if (!allowed) {
      const auto after = DecodeOne(runtime, kFirst, ArgMax(*before));
      runtime.Clear(kThird);
      (void)Prefill(runtime, kThird, scene.tokens, from);
      const auto untouched = DecodeOne(runtime, kThird, ArgMax(*before));
      check.That(after && untouched && SameBits(*after, *untouched),
                 "a refused truncate changed the lane" + at);
      continue;
    }
    ExpectSame(check, Finish(runtime, kFirst, scene.tokens, size.generated), scene.cold,
               "truncated" + at);
  }
  check.That(runtime.Truncate(kFirst, 0) && runtime.End(kFirst) == 0, "truncate to nothing");
  return check.Take();
}

Problems FailedImportLeavesNoTrace(const llama::Model& model, const RunSetup& setup,
                                   const CaseSize& size) {
  Checker check;
  Scene scene;
  if (!MakeScene(check, model, setup, size, size.boundary, scene)) return check.Take();
  runtime::Runtime& runtime = *scene.runtime;
  const auto refused = [&](const char* what, auto damage) {
    Restore restore =
        MakeRestore(runtime.info().shape, kSecond, scene.saved, scene.tokens, size.boundary);
    damage(restore);
    check.That(!runtime.Import(restore.request), std::string(what) + " was accepted");
    check.That(runtime.End(kSecond) == 0, std::string(what) + " left rows");
  };
  refused("a wrong end", [&](Restore& r) { r.request.end -= 1; });
  refused("an end past the context",
          [&](Restore& r) { r.request.end = runtime.info().context + 1; });
  refused("missing tokens", [&](Restore& r) { r.request.tokens = r.request.tokens.first(3); });
  if (runtime.info().shape.HasKv()) {
    refused("a short block",
            [&](Restore& r) { r.kv[1].block = r.kv[1].block.first(r.kv[1].block.size() - 1); });
    refused("a gap", [&](Restore& r) {
      r.kv.erase(r.kv.begin() + 1);
      r.request.kv = r.kv;
    });
    refused("rows outside the block", [&](Restore& r) { r.kv[1].first_row = 1; });
    refused("no rows", [&](Restore& r) { r.request.kv = {}; });
  }
  if (runtime.info().shape.HasWindow()) {
    refused("no window", [&](Restore& r) { r.request.window = {}; });
    refused("a short window", [&](Restore& r) {
      r.window[0].positions.begin += 1;
      r.window[0].first_row += 1;
    });
  }
  if (runtime.info().shape.HasSnapshot()) {
    refused("no snapshot", [&](Restore& r) { r.request.snapshot = {}; });
  }
  // A lane in use is emptied by a refused import, not left half way.
  check.Ok(Prefill(runtime, kSecond, scene.tokens, 40), "prefill");
  refused("a wrong end over a lane in use", [&](Restore& r) { r.request.end -= 1; });
  ExpectSame(check, Finish(runtime, kSecond, scene.tokens, size.generated), scene.cold,
             "cold run afterwards");
  if (check.Ok(RestoreInto(runtime, kThird, scene.saved, scene.tokens, size.boundary),
               "import afterwards"))
    ExpectSame(check, Finish(runtime, kThird, scene.tokens, size.generated), scene.cold,
               "restore afterwards");
  return check.Take();
}

Problems OtherLanesChangeNothing(const llama::Model& model, const RunSetup& setup,
                                 const CaseSize& size) {
  Checker check;
  Scene scene;
  if (!MakeScene(check, model, setup, size, size.boundary, scene)) return check.Take();
  runtime::Runtime& runtime = *scene.runtime;
  const auto other = RandomPrompt(runtime, size.length, 99);
  // Lanes 0 and 2 are at work, also together in one batch, while lane 1 is restored and goes on.
  runtime.Clear(kFirst);
  check.Ok(Prefill(runtime, kFirst, other, 100), "prefill other");
  check.Ok(Prefill(runtime, kThird, other, 37), "prefill other");
  const auto disturb = [&](Pos step) {
    const runtime::DecodeItem items[] = {
        {kThird, runtime.End(kThird), TokenSpan(other).subspan(step, 1), true},
        {kFirst, runtime.End(kFirst), TokenSpan(other).subspan(step, 1), true}};
    check.Ok(runtime.Decode(items), "decode others");
  };
  disturb(0);
  if (!check.Ok(RestoreInto(runtime, kSecond, scene.saved, scene.tokens, size.boundary), "import"))
    return check.Take();
  disturb(1);
  const auto logits = Prefill(runtime, kSecond, scene.tokens, size.length);
  if (!check.Ok(logits, "suffix")) return check.Take();
  check.That(SameBits(*logits, scene.cold.logits), "logits differ from the cold run");
  Logits last = *logits;
  for (int i = 0; i < size.generated; ++i) {
    disturb(static_cast<Pos>(2 + i));
    const auto next = DecodeOne(runtime, kSecond, ArgMax(last));
    if (!check.Ok(next, "step")) break;
    last = *next;
    if (!check.That(SameBits(last, scene.cold.continuation.logits[static_cast<std::size_t>(i) + 1]),
                    fmt::format("step {} differs from the cold run", i)))
      break;
  }
  return check.Take();
}

Problems DecodedRowsRestore(const llama::Model& model, const RunSetup& setup,
                            const CaseSize& size) {
  Checker check;
  Scene scene;
  if (!MakeScene(check, model, setup, size, size.boundary, scene)) return check.Take();
  runtime::Runtime& runtime = *scene.runtime;
  // Lane 0 now holds the prompt and the generated tokens, all but the first of them decoded one by
  // one.
  std::vector<Token> tokens = scene.tokens;
  const Continuation& generated = scene.cold.continuation;
  tokens.insert(tokens.end(), generated.tokens.begin(), generated.tokens.end());
  const auto saved = SaveAll(runtime, kFirst);
  if (!check.Ok(saved, "save")) return check.Take();
  const auto longer = Generate(runtime, kFirst, generated.logits.back(), size.generated);
  if (!check.Ok(longer, "longer")) return check.Take();
  if (!check.Ok(RestoreInto(runtime, kThird, *saved, tokens, saved->end), "import"))
    return check.Take();
  const auto restored = Generate(runtime, kThird, generated.logits.back(), size.generated);
  if (check.Ok(restored, "restored"))
    check.That(SameBits(*restored, *longer), "the continuation differs from the uninterrupted one");
  return check.Take();
}

Problems OneLaneRestores(const llama::Model& model, const RunSetup& setup, const CaseSize& size) {
  Checker check;
  RunSetup one = setup;
  one.lanes = 1;
  Scene scene;
  if (!MakeScene(check, model, one, size, size.boundary, scene)) return check.Take();
  if (check.Ok(RestoreInto(*scene.runtime, kFirst, scene.saved, scene.tokens, size.boundary),
               "import"))
    ExpectSame(check, Finish(*scene.runtime, kFirst, scene.tokens, size.generated), scene.cold,
               "restored");
  scene.runtime->Clear(kFirst);
  ExpectSame(check, Finish(*scene.runtime, kFirst, scene.tokens, size.generated), scene.cold,
             "cold again");
  return check.Take();
}

Problems PageBehindAnotherPrefixDiffers(const llama::Model& model, const RunSetup& setup) {
  Checker check;
  auto runtime = NewRuntime(model, setup);
  if (!check.That(runtime != nullptr, "no runtime")) return check.Take();
  const MemoryShape& shape = runtime->info().shape;
  const Pos page = setup.chunk;
  const Pos end = 2 * page;
  const auto own = RandomPrompt(*runtime, end + 32, 7);
  auto other = RandomPrompt(*runtime, page, 8);
  other.insert(other.end(), own.begin() + page, own.end());

  const auto state_of = [&](SeqId lane, const std::vector<Token>& tokens) {
    check.Ok(Prefill(*runtime, lane, tokens, end), "prefill");
    auto saved = Save(*runtime, lane, page, 0);
    check.Ok(saved, "save");
    return saved.value_or(SavedState{});
  };
  const SavedState first = state_of(kFirst, own);
  const SavedState second = state_of(kSecond, other);
  const auto cold = Prefill(*runtime, kFirst, own, static_cast<Pos>(own.size()));
  if (!check.Ok(cold, "cold run") || second.end != end) return check.Take();
  if (shape.HasKv()) check.That(first.kv[1] != second.kv[1], "the KV rows are equal");
  if (shape.HasSnapshot()) check.That(first.snapshot != second.snapshot, "the snapshots are equal");

  // The own first page, and all behind it from `from`.
  const auto gone_on_from = [&](const SavedState& from) -> Result<Logits> {
    Restore mixed = MakeRestore(shape, kThird, first, own, end);
    if (shape.HasKv()) mixed.kv[1].block = from.kv[1];
    if (shape.HasWindow()) {
      const Pos window = shape.WindowBegin(end);
      const Pos begin = std::max(page, window);
      mixed.window.clear();
      if (window < begin) mixed.window.push_back({first.window, end, window, {window, begin}});
      mixed.window.push_back({from.window, end, begin, {begin, end}});
    }
    mixed.request.kv = mixed.kv;
    mixed.request.window = mixed.window;
    mixed.request.snapshot = from.snapshot;
    SKIPPY_RETURN_IF_ERROR(runtime->Import(mixed.request));
    return Prefill(*runtime, kThird, own, static_cast<Pos>(own.size()));
  };
  const auto control = gone_on_from(first);
  if (check.Ok(control, "own page"))
    check.That(SameBits(*control, *cold), "the own page does not give the cold run's logits");
  const auto reused = gone_on_from(second);
  if (check.Ok(reused, "other page"))
    check.That(!SameBits(*reused, *cold), "the other page gives the cold run's logits");
  return check.Take();
}

const std::vector<NamedCase>& AllCases() {
  static const std::vector<NamedCase> cases = {
      {"RestoredEqualsCold", RestoredEqualsCold},
      {"PartialPageEqualsCut", PartialPageEqualsCut},
      {"CopyEqualsOriginal", CopyEqualsOriginal},
      {"TruncatedEqualsCold", TruncatedEqualsCold},
      {"FailedImportLeavesNoTrace", FailedImportLeavesNoTrace},
      {"OtherLanesChangeNothing", OtherLanesChangeNothing},
      {"DecodedRowsRestore", DecodedRowsRestore},
      {"OneLaneRestores", OneLaneRestores}};
  return cases;
}

}  // namespace skippy::model_test
