#include "api/next_turn.h"

#include <memory>
#include <utility>

#include "api/chat_request.h"
#include "api/completion_plan.h"

namespace skippy::api {
namespace {

// Stands for the next message; no template changes it, and no text has it by chance.
constexpr const char* kNextContent = "next-content-7d1f0b6e";

Json NextMessage(const Json& answer) {
  Json next{{"role", "user"}, {"content", kNextContent}};
  if (!Has(answer, "tool_calls") || answer.at("tool_calls").empty()) return next;
  const Json& call = answer.at("tool_calls").front();
  next["role"] = "tool";
  next["tool_call_id"] = StringOr(call, "id");
  if (Has(call, "function")) next["name"] = StringOr(call.at("function"), "name");
  return next;
}

class IdleSink final : public engine::GenerationSink {
 public:
  explicit IdleSink(const std::atomic<bool>& stopping) : stopping_(stopping) {}
  void OnPromptProgress(const engine::PromptReport&, std::uint32_t) override {}
  Next OnToken(Token, std::span<const float>) override { return Next::kStop; }
  void OnFinish(const engine::GenerationReport&) override {}
  bool Cancelled() const override { return stopping_; }

 private:
  const std::atomic<bool>& stopping_;  // the server's, which outlives the engine's thread
};

}  // namespace

ApiResult<std::vector<Token>> NextTurnPrefix(const ServerState& state, Json chat,
                                             const Json& answer) {
  return Guarded([&]() -> ApiResult<std::vector<Token>> {
    chat["messages"].push_back(answer);
    chat["messages"].push_back(NextMessage(answer));
    API_TRY(const Json rendered, ApplyTemplate(state, std::move(chat)));
    const std::string prompt = rendered.at("prompt").get<std::string>();
    const std::size_t end = prompt.rfind(kNextContent);
    if (end == std::string::npos) return BadRequest("the template does not show the next message");
    API_TRY(auto prompts, TokenizePrompts(state, Json{{"prompt", prompt.substr(0, end)}}, true));
    return std::move(prompts.front());
  });
}

void EvaluateAhead(ServerState& state, std::vector<Token> prefix, const std::string& tenant_salt,
                   const ServerState::Adapters& adapters) {
  engine::GenerateRequest request;
  request.prompt = std::move(prefix);
  request.tenant_salt = tenant_salt;
  request.adapters = adapters;
  request.idle = true;
  request.sink = std::make_shared<IdleSink>(state.stopping);
  static_cast<void>(state.engine.Submit(std::move(request)).has_value());
}

}  // namespace skippy::api
