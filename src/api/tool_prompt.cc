#include "api/tool_prompt.h"

#include <fmt/format.h>

#include "chat-peg-parser.h"
#include "chat.h"
#include "json-schema-to-grammar.h"

namespace skippy::api {
namespace {

constexpr const char* kCallBegin = "<tool_call>";
constexpr const char* kCallEnd = "</tool_call>";

// The one way in which a call is written: by the model under the grammar, and by us in later turns.
std::string CallHead(const std::string& name) {
  return fmt::format("{}\n{{\"name\": {}, \"arguments\": ", kCallBegin, Json(name).dump());
}
std::string CallTail() { return fmt::format("}}\n{}", kCallEnd); }

std::string ToolsText(const Json& tools) {
  std::string text =
      "You can call functions. Their descriptions, one JSON object a line:\n<tools>\n";
  for (const Json& tool : tools) text += tool.dump_safe() + "\n";
  text += "</tools>\nTo call a function, answer with its name and arguments as JSON:\n";
  text +=
      fmt::format("{}\n{{\"name\": \"...\", \"arguments\": {{...}}}}\n{}", kCallBegin, kCallEnd);
  return text;
}

// The text of a message's content, whose parts may be several.
std::string ContentText(const Json& message) {
  if (!Has(message, "content")) return {};
  const Json& content = message.at("content");
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  for (const Json& part : content) {
    if (!text.empty()) text += "\n";
    text += StringOr(part, "text");
  }
  return text;
}

std::string CallsText(const Json& calls) {
  std::string text;
  for (const Json& call : calls) {
    const Json& function = call.at("function");
    const Json& arguments = function.at("arguments");
    if (!text.empty()) text += "\n";
    text += CallHead(function.at("name").get<std::string>());
    text += arguments.is_string() ? arguments.get<std::string>() : arguments.dump_safe();
    text += CallTail();
  }
  return text;
}

}  // namespace

void DescribeTools(Json& messages, const Json& tools) {
  Json rendered = Json::array();
  const std::string description = ToolsText(tools);
  bool described = false;
  for (Json message : messages) {
    const std::string role = message.at("role").get<std::string>();
    if (!described) {
      described = true;
      if (role == "system" || role == "developer") {
        message["content"] = ContentText(message) + "\n\n" + description;
      } else {
        rendered.push_back(Json{{"role", "system"}, {"content", description}});
      }
    }
    if (role == "assistant" && Has(message, "tool_calls")) {
      const std::string said = ContentText(message);
      const std::string calls = CallsText(message.at("tool_calls"));
      message["content"] = said.empty() ? calls : said + "\n" + calls;
      message.erase("tool_calls");
    } else if (role == "tool" || role == "function") {
      message =
          Json{{"role", "user"},
               {"content", "<tool_response>\n" + ContentText(message) + "\n</tool_response>"}};
    }
    rendered.push_back(std::move(message));
  }
  messages = std::move(rendered);
}

ToolGrammar BuildToolGrammar(const Json& tools, const std::string& generation_prompt,
                             bool required) {
  const common_peg_arena arena = build_chat_peg_parser([&](common_chat_peg_builder& p) {
    common_peg_parser calls = p.choice();
    for (const Json& tool : tools) {
      const Json& function = tool.at("function");
      const std::string name = function.at("name").get<std::string>();
      const std::string head = CallHead(name);
      const std::string quoted = Json(name).dump();
      const std::size_t at = head.find(quoted);
      const auto open = p.tool_open(p.literal(head.substr(0, at + 1)) +
                                    p.tool_name(p.literal(quoted.substr(1, quoted.size() - 2))) +
                                    p.literal(head.substr(at + quoted.size() - 1)));
      const auto arguments = p.tool_args(
          p.schema(p.json(), "tool-" + name + "-schema", common_chat_tool_parameters(function)));
      const auto close = p.tool_close(p.literal(CallTail()));
      calls |= p.rule("tool-" + name, p.tool(open + arguments + close));
    }
    const auto call = p.trigger_rule("tool-call", calls);
    const auto prefix = p.prefix(generation_prompt);
    if (required) return prefix + call + p.end();
    return prefix + p.content(p.until(kCallBegin)) + p.optional(call) + p.end();
  });

  ToolGrammar result;
  result.parser = arena.save();
  result.grammar = build_grammar(
      [&](const common_grammar_builder& builder) { arena.build_grammar(builder, !required); });
  result.trigger = kCallBegin;
  return result;
}

}  // namespace skippy::api
