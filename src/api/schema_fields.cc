#include "api/schema_fields.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "json-schema-to-grammar.h"

namespace skippy::api {
namespace {

// Whether groups and classes of a regular expression are closed: what is not would be taken for
// "any text".
bool IsClosedPattern(const std::string& pattern) {
  std::size_t groups = 0;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      if (++i == pattern.size()) return false;
    } else if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
    } else if (c == '(') {
      ++groups;
    } else if (c == ')' && groups-- == 0) {
      return false;
    }
  }
  return groups == 0 && !in_class;
}

}  // namespace

ApiStatus CheckSchema(const Json& schema, const char* where) {
  constexpr std::size_t kMaxProperties = 256;
  constexpr std::size_t kMaxNodes = 50'000;
  constexpr std::size_t kMaxName =
      1024;  // names go through std::regex, which recurses on their characters
  std::vector<const Json*> open{&schema};
  for (std::size_t seen = 0; !open.empty(); ++seen) {
    if (seen > kMaxNodes)
      return BadRequest(fmt::format("the JSON schema in '{}' is too large", where));
    const Json& node = *open.back();
    open.pop_back();
    if (!node.is_object() && !node.is_array()) continue;
    if (node.is_object() && Has(node, "properties") &&
        node.at("properties").size() > kMaxProperties) {
      return BadRequest(
          fmt::format("an object of the JSON schema in '{}' has more than {} properties", where,
                      kMaxProperties));
    }
    if (const std::string pattern = StringOr(node, "pattern"); !IsClosedPattern(pattern)) {
      return BadRequest(fmt::format("the pattern '{}' in '{}' is not a regular expression",
                                    pattern.substr(0, 80), where));
    }
    if (node.is_object()) {
      for (const auto& [key, value] : node.items()) {
        if (key.size() > kMaxName) {
          return BadRequest(fmt::format("the JSON schema in '{}' has a name of more than {} bytes",
                                        where, kMaxName));
        }
        open.push_back(&value);
      }
    } else {
      for (const Json& value : node) open.push_back(&value);
    }
  }
  return {};
}

// The parsers of chat answers quietly take any text for a pattern that they cannot read, so the
// schema is tried on the stricter converter first.
ApiStatus CheckOutputSchema(const Json& schema) {
  if (!schema.is_object()) return BadRequest("the schema in 'response_format' must be an object");
  API_RETURN_IF_ERROR(CheckSchema(schema, "response_format"));
  if (schema.empty()) return {};  // any object
  return Guarded([&]() -> ApiStatus {
    json_schema_to_grammar(schema);
    return {};
  });
}

}  // namespace skippy::api
