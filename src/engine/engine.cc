// The engine's outside: validation, the bounded queue, the thread. What happens in a round is the
// scheduler's business.
#include "engine/engine.h"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include "engine/core.h"
#include "engine/scheduler.h"
#include "skippy/identity.h"

namespace skippy::engine {
namespace {

constexpr std::size_t kMaxIdle = 8;  // pieces of idle work that wait

AdapterSet WithoutZeroScales(std::span<const std::pair<std::uint32_t, float>> adapters) {
  AdapterSet kept;
  for (const auto& adapter : adapters) {
    if (adapter.second != 0.0F) kept.push_back(adapter);
  }
  return kept;
}

}  // namespace

class Engine::Impl {
 public:
  Impl(const EngineOptions& options, runtime::Runtime& runtime, PrefixCache& cache,
       const Clock& clock)
      : core_(options, runtime, cache, clock), scheduler_(core_) {
    core_.publish = [this] { Publish(); };
    Publish();
  }

  Result<RequestId> Submit(GenerateRequest request) {
    Result<std::unique_ptr<Run>> run = MakeRun(std::move(request));
    if (!run) return Reject(std::move(run).error());
    const std::lock_guard lock(mutex_);
    if (stopping_ && (*run)->request.idle)
      return Err(ErrorCode::kUnavailable, "the engine is stopping");
    if (stopping_) return RejectLocked({ErrorCode::kUnavailable, "the engine is stopping"});
    if ((*run)->request.idle) return SubmitIdle(std::move(*run));
    if (waiting_ + queued_ >= core_.options.max_queue) {
      return RejectLocked(
          {ErrorCode::kResourceExhausted,
           fmt::format("{} requests are waiting already", core_.options.max_queue)});
    }
    ++requests_;
    ++waiting_;
    return Post(std::move(*run));
  }

  void Cancel(RequestId id) {
    const std::lock_guard lock(mutex_);
    cancels_.insert(id);
    wake_.notify_one();
  }

  // Runs `fn` between two steps: on the engine thread where there is one, else here.
  void Between(const std::function<void()>& fn) {
    std::unique_lock lock(mutex_);
    if (!running_) {
      lock.unlock();
      const std::lock_guard owner(owner_mutex_);
      TakeInbox();
      fn();
      Publish();
      return;
    }
    PendingCall call{&fn, false};
    calls_.push_back(&call);
    wake_.notify_one();
    called_.wait(lock, [&] { return call.done; });
  }

  Result<DryRun> Peek(GenerateRequest request) {
    Result<std::unique_ptr<Run>> run = MakeRun(std::move(request));
    if (!run) return tl::unexpected<Error>(std::move(run).error());
    DryRun dry;
    Between([&] { dry = scheduler_.Peek(**run); });
    return dry;
  }

  EngineStats Stats() {
    const std::lock_guard lock(mutex_);
    EngineStats stats = published_;
    stats.requests = requests_;
    stats.rejected = rejected_;
    stats.queued = static_cast<std::uint32_t>(waiting_ + queued_);
    return stats;
  }

  std::vector<LaneStatus> Lanes() {
    const std::lock_guard lock(mutex_);
    return published_lanes_;
  }

  void ForgetIdleLanes() {
    Between([this] { scheduler_.ForgetIdleLanes(); });
  }

  void Call(const std::function<void(PrefixCache&, runtime::Runtime&)>& fn) {
    Between([&] { fn(core_.cache, core_.runtime); });
  }

  void Start() {
    const std::lock_guard life(life_mutex_);
    {
      const std::lock_guard lock(mutex_);
      if (running_ || stopping_) return;
      running_ = true;
    }
    thread_ = std::thread([this] { Loop(); });
  }

  void Stop() {
    const std::lock_guard life(life_mutex_);
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      wake_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
    const std::lock_guard owner(owner_mutex_);
    TakeInbox();
    scheduler_.CancelAll();
    Publish();
  }

  // A round by whoever owns the engine while it has no thread.
  bool StepHere() {
    {
      const std::lock_guard lock(mutex_);
      if (running_) return false;
    }
    const std::lock_guard owner(owner_mutex_);
    return Round();
  }

 private:
  struct PendingCall {
    const std::function<void()>* fn;
    bool done;
  };

  Result<std::unique_ptr<Run>> MakeRun(GenerateRequest request) const;
  tl::unexpected<Error> Reject(Error error) {
    const std::lock_guard lock(mutex_);
    return RejectLocked(std::move(error));
  }
  tl::unexpected<Error> RejectLocked(Error error) {
    ++rejected_;
    return tl::unexpected<Error>(std::move(error));
  }

  // mutex_ is held.
  RequestId Post(std::unique_ptr<Run> run) {
    const RequestId id{++last_id_};
    run->id = id;
    run->submitted = core_.clock.Now();
    inbox_.push_back(std::move(run));
    wake_.notify_one();
    return id;
  }

  // mutex_ is held.
  Result<RequestId> SubmitIdle(std::unique_ptr<Run> run) {
    if (inbox_.size() - waiting_ + idle_queued_ >= kMaxIdle)
      return Err(ErrorCode::kResourceExhausted, "enough idle work is waiting already");
    return Post(std::move(run));
  }

  void TakeInbox() {
    std::set<RequestId> cancels;
    {
      const std::lock_guard lock(mutex_);
      for (auto& run : inbox_) scheduler_.Enqueue(std::move(run));
      inbox_.clear();
      waiting_ = 0;
      queued_ = scheduler_.queued();
      idle_queued_ = scheduler_.idle_queued();
      cancels.swap(cancels_);
    }
    for (const RequestId id : cancels) scheduler_.Cancel(id);
  }

  void Publish() {
    std::vector<LaneStatus> lanes = scheduler_.Lanes();
    const std::lock_guard lock(mutex_);
    queued_ = scheduler_.queued();
    idle_queued_ = scheduler_.idle_queued();
    published_ = core_.stats;
    published_.running = static_cast<std::uint32_t>(scheduler_.running());
    published_lanes_.swap(lanes);
  }

  bool Round() {
    TakeInbox();
    const bool worked = scheduler_.Step();
    Publish();
    return worked;
  }

  void ServeCalls(std::unique_lock<std::mutex>& lock) {
    while (!calls_.empty()) {
      PendingCall* call = calls_.front();
      calls_.pop_front();
      lock.unlock();
      (*call->fn)();
      Publish();
      lock.lock();
      call->done = true;
      called_.notify_all();
    }
  }

  void Loop() {
    bool worked = true;
    std::unique_lock lock(mutex_);
    for (;;) {
      if (!worked) {
        wake_.wait(lock, [this] {
          return stopping_ || !inbox_.empty() || !cancels_.empty() || !calls_.empty();
        });
      }
      ServeCalls(lock);
      if (stopping_) break;
      lock.unlock();
      worked = Round();
      lock.lock();
    }
    // From here on calls run on their callers' threads.
    running_ = false;
  }

  Core core_;
  Scheduler scheduler_;
  std::mutex life_mutex_;   // Start and Stop
  std::mutex owner_mutex_;  // who may touch core_ and scheduler_ while no thread runs
  std::thread thread_;

  // State below is protected by mutex_.
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable called_;
  std::deque<std::unique_ptr<Run>> inbox_;
  std::set<RequestId> cancels_;
  std::deque<PendingCall*> calls_;
  std::size_t waiting_ = 0;      // requests in the inbox, idle work not counted
  std::size_t queued_ = 0;       // requests in the scheduler
  std::size_t idle_queued_ = 0;  // idle work there
  bool running_ = false;         // a thread owns core_ and scheduler_
  bool stopping_ = false;
  std::uint64_t last_id_ = 0;
  std::uint64_t requests_ = 0;
  std::uint64_t rejected_ = 0;
  EngineStats published_;
  std::vector<LaneStatus> published_lanes_;
};

Result<std::unique_ptr<Run>> Engine::Impl::MakeRun(GenerateRequest request) const {
  const runtime::RuntimeInfo& info = core_.info();
  if (request.prompt.empty()) return Err(ErrorCode::kInvalidArgument, "the prompt is empty");
  if (request.prompt.size() > info.context) {
    return Err(ErrorCode::kInvalidArgument, fmt::format("the prompt has {} tokens, the context {}",
                                                        request.prompt.size(), info.context));
  }
  for (std::size_t i = 0; i < request.prompt.size(); ++i) {
    const Token token = request.prompt[i];
    if (token < 0 || static_cast<std::uint32_t>(token) >= info.vocab) {
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("token {} at position {} is not one of the {} of the vocabulary",
                             token, i, info.vocab));
    }
  }
  if (request.idle && request.max_tokens > 0)
    return Err(ErrorCode::kInvalidArgument, "idle work evaluates a prompt and generates nothing");
  if (!request.sink) return Err(ErrorCode::kInvalidArgument, "the request has no sink");
  if (request.max_tokens > 0 && !request.sampler) {
    return Err(ErrorCode::kInvalidArgument, "the request asks for tokens and has no sampler");
  }
  auto run = std::make_unique<Run>();
  run->adapters = WithoutZeroScales(request.adapters);
  SKIPPY_TRY(std::vector<AdapterIdentity> adapters, core_.runtime.ResolveAdapters(run->adapters));
  Identity identity = info.identity;
  identity.adapters = std::move(adapters);
  run->ns = MakeNamespace(identity, request.tenant_salt);
  run->use_cache = request.use_cache && core_.Caching();
  run->text = std::move(request.prompt);
  run->prompt_tokens = static_cast<Pos>(run->text.size());
  run->request = std::move(request);
  return run;
}

namespace {

// For dry runs, which end before a sink is ever called.
class NoSink final : public GenerationSink {
 public:
  void OnPromptProgress(const PromptReport&, std::uint32_t) override {}
  Next OnToken(Token, std::span<const float>) override { return Next::kStop; }
  void OnFinish(const GenerationReport&) override {}
  bool Cancelled() const override { return false; }
};

}  // namespace

Engine::Engine(const EngineOptions& options, runtime::Runtime& runtime, PrefixCache& cache,
               const Clock& clock)
    : impl_(std::make_unique<Impl>(options, runtime, cache, clock)) {}
Engine::~Engine() { impl_->Stop(); }

Result<RequestId> Engine::Submit(GenerateRequest request) {
  return impl_->Submit(std::move(request));
}
void Engine::Cancel(RequestId id) { impl_->Cancel(id); }
void Engine::Call(const std::function<void(PrefixCache&, runtime::Runtime&)>& fn) {
  impl_->Call(fn);
}
void Engine::ForgetIdleLanes() { impl_->ForgetIdleLanes(); }
EngineStats Engine::Stats() { return impl_->Stats(); }
std::vector<LaneStatus> Engine::Lanes() { return impl_->Lanes(); }
void Engine::Start() { impl_->Start(); }
void Engine::Stop() { impl_->Stop(); }
bool Engine::Step() { return impl_->StepHere(); }

Result<DryRun> Engine::Peek(TokenSpan prompt, const std::string& tenant_salt,
                            std::span<const std::pair<std::uint32_t, float>> adapters) {
  GenerateRequest request;
  request.prompt.assign(prompt.begin(), prompt.end());
  request.tenant_salt = tenant_salt;
  request.adapters.assign(adapters.begin(), adapters.end());
  request.sink = std::make_shared<NoSink>();
  return impl_->Peek(std::move(request));
}

}  // namespace skippy::engine
