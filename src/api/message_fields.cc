#include "api/message_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "api/body_scan.h"
#include "api/schema_fields.h"

namespace skippy::api {
namespace {

ApiStatus CheckToolCalls(const Json& message) {
  if (!Has(message, "tool_calls")) return {};
  if (!message.at("tool_calls").is_array()) return BadRequest("'tool_calls' must be an array");
  for (const Json& call : message.at("tool_calls")) {
    const bool shaped = call.is_object() && Has(call, "function") &&
                        call.at("function").is_object() &&
                        !StringOr(call.at("function"), "name").empty();
    if (!shaped) return BadRequest("each of 'tool_calls' needs a 'function' with a 'name'");
    const Json& function = call.at("function");
    if (!Has(function, "arguments")) return BadRequest("'tool_calls[].function' needs 'arguments'");
    // Templates parse the string again.
    if (function.at("arguments").is_string()) {
      API_RETURN_IF_ERROR(ScanJson(function.at("arguments").get<std::string>(), "'arguments'"));
    }
  }
  return {};
}

ApiStatus CheckContent(const Json& content, std::size_t index) {
  if (content.is_null() || content.is_string()) return {};
  if (!content.is_array()) {
    return BadRequest(
        fmt::format("messages[{}].content must be a string or an array of parts", index));
  }
  for (const Json& part : content) {
    const std::string type = part.is_object() ? StringOr(part, "type") : "";
    if (type == "text") {
      if (!Has(part, "text") || !part.at("text").is_string()) {
        return BadRequest(fmt::format("messages[{}]: a text part needs a string 'text'", index));
      }
    } else if (type == "image_url" || type == "input_audio" || type == "input_video" ||
               type == "video_url" || type == "image") {
      return BadRequest(fmt::format(
          "messages[{}]: this server serves text only; '{}' parts are not supported", index, type));
    } else if (type != "refusal") {
      return BadRequest(
          fmt::format("messages[{}]: unsupported content part type '{}'", index, type));
    }
  }
  return {};
}

}  // namespace

ApiStatus CheckMessages(const Json& body) {
  if (!Has(body, "messages")) return BadRequest("'messages' is required");
  const Json& messages = body.at("messages");
  if (!messages.is_array()) return BadRequest("'messages' must be an array");
  if (messages.empty()) return BadRequest("'messages' must not be empty");
  constexpr std::array<std::string_view, 6> kRoles{"system",    "developer", "user",
                                                   "assistant", "tool",      "function"};
  std::size_t index = 0;
  for (const Json& message : messages) {
    if (!message.is_object())
      return BadRequest(fmt::format("messages[{}] must be an object", index));
    if (!Has(message, "role") || !message.at("role").is_string()) {
      return BadRequest(fmt::format("messages[{}].role must be a string", index));
    }
    const std::string role = message.at("role").get<std::string>();
    if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) {
      return BadRequest(fmt::format(
          "messages[{}].role '{}' is unknown; use system, developer, user, assistant or tool",
          index, role.substr(0, 40)));
    }
    if (message.contains("content")) {
      API_RETURN_IF_ERROR(CheckContent(message.at("content"), index));
      if (message.at("content").is_null() && role != "assistant") {
        return BadRequest(fmt::format("messages[{}].content must not be null", index));
      }
    }
    for (const char* name : {"name", "tool_call_id", "reasoning_content"}) {
      if (Has(message, name) && !message.at(name).is_string()) {
        return BadRequest(fmt::format("messages[{}].{} must be a string", index, name));
      }
    }
    API_RETURN_IF_ERROR(CheckToolCalls(message));
    ++index;
  }
  return {};
}

ApiStatus CheckTools(const Json& body) {
  if (!Has(body, "tools")) return {};
  constexpr std::size_t kMaxTools = 1024;
  if (body.at("tools").size() > kMaxTools) {
    return BadRequest(fmt::format("'tools' may have at most {} elements", kMaxTools));
  }
  std::vector<std::string> names;
  for (const Json& tool : body.at("tools")) {
    if (!tool.is_object() || StringOr(tool, "type") != "function" || !Has(tool, "function") ||
        !tool.at("function").is_object()) {
      return BadRequest("each of 'tools' must be {\"type\": \"function\", \"function\": {...}}");
    }
    const Json& function = tool.at("function");
    const std::string name = StringOr(function, "name");
    if (name.empty() || name.size() > 256) {
      return BadRequest("each of 'tools' needs a string 'function.name' of at most 256 bytes");
    }
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      return BadRequest(fmt::format("'tools' has two functions named '{}'", name.substr(0, 80)));
    }
    names.push_back(name);
    if (Has(function, "description") && !function.at("description").is_string()) {
      return BadRequest(
          fmt::format("description of tool '{}' must be a string", name.substr(0, 80)));
    }
    if (Has(function, "parameters")) {
      if (!function.at("parameters").is_object()) {
        return BadRequest(
            fmt::format("parameters of tool '{}' must be an object", name.substr(0, 80)));
      }
      API_RETURN_IF_ERROR(CheckSchema(function.at("parameters"), "tools"));
    }
  }
  return {};
}

}  // namespace skippy::api
