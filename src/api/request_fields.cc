#include "api/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "api/body_scan.h"
#include "api/schema_fields.h"

namespace skippy::api {
namespace {

enum Kind : unsigned {
  kBool = 1U,
  kInt = 2U,
  kNumber = 4U,
  kString = 8U,
  kArray = 16U,
  kObject = 32U,
};

constexpr double kInt32Max = 2147483647.0;
constexpr double kAnyInt64 = 9.3e18;
constexpr double kMaxProbs = 1000;
constexpr std::size_t kMaxWord = 4096;  // bytes of stop strings, trigger words and the like

struct Rule {
  const char* name;
  unsigned kinds;
  double least = -kInt32Max;
  double most = kInt32Max;
};

constexpr std::array kRules{
    Rule{"model", kString},
    Rule{"stream", kBool},
    Rule{"stream_options", kObject},
    Rule{"cache_prompt", kBool},
    Rule{"return_tokens", kBool},
    Rule{"return_progress", kBool},
    Rule{"timings_per_token", kBool},
    Rule{"ignore_eos", kBool},
    Rule{"post_sampling_probs", kBool},
    Rule{"parallel_tool_calls", kBool},
    Rule{"add_generation_prompt", kBool},
    Rule{"verbose", kBool},
    Rule{"echo", kBool},
    Rule{"grammar_lazy", kBool},
    Rule{"reasoning_control", kBool},
    Rule{"logprobs", kBool | kInt, 0, kMaxProbs},
    Rule{"top_logprobs", kInt, 0, kMaxProbs},
    Rule{"n_probs", kInt, 0, kMaxProbs},
    Rule{"max_tokens", kInt, -1, kInt32Max},
    Rule{"max_completion_tokens", kInt, -1, kInt32Max},
    Rule{"n_predict", kInt, -1, kInt32Max},
    Rule{"n_keep", kInt, -1, kInt32Max},
    Rule{"n_discard", kInt, 0, kInt32Max},
    Rule{"n_indent", kInt, 0, kInt32Max},
    Rule{"min_keep", kInt, 0, kInt32Max},
    Rule{"top_k", kInt, -1, kInt32Max},
    Rule{"seed", kInt, -kAnyInt64, kAnyInt64},
    Rule{"id_slot", kInt, -1, kInt32Max},
    Rule{"t_max_predict_ms", kInt, -1, 1e15},
    Rule{"sse_ping_interval", kInt, -1, kInt32Max},
    Rule{"repeat_last_n", kInt, -1, kInt32Max},
    Rule{"dry_allowed_length", kInt, 0, kInt32Max},
    Rule{"dry_penalty_last_n", kInt, -1, kInt32Max},
    Rule{"mirostat", kInt, 0, 2},
    Rule{"reasoning_budget_tokens", kInt, -1, kInt32Max},
    Rule{"thinking_budget_tokens", kInt, -1, kInt32Max},
    Rule{"n_cache_reuse", kInt, 0, kInt32Max},
    Rule{"temperature", kNumber, 0, 1e6},
    Rule{"top_p", kNumber, 0, 1},
    Rule{"min_p", kNumber, 0, 1},
    Rule{"typical_p", kNumber, 0, 1e6},
    Rule{"top_n_sigma", kNumber, -1e6, 1e6},
    Rule{"xtc_probability", kNumber, 0, 1},
    Rule{"xtc_threshold", kNumber, 0, 1e6},
    Rule{"dynatemp_range", kNumber, 0, 1e6},
    Rule{"dynatemp_exponent", kNumber, -1e6, 1e6},
    Rule{"repeat_penalty", kNumber, 1e-6, 1e6},
    Rule{"presence_penalty", kNumber, -1e6, 1e6},
    Rule{"frequency_penalty", kNumber, -1e6, 1e6},
    Rule{"dry_multiplier", kNumber, 0, 1e6},
    Rule{"dry_base", kNumber, 0, 1e6},
    Rule{"mirostat_tau", kNumber, 0, 1e6},
    Rule{"mirostat_eta", kNumber, 0, 1e6},
    Rule{"adaptive_target", kNumber, -1e6, 1},
    Rule{"adaptive_decay", kNumber, 0, 0.99},
    Rule{"stop", kString | kArray},
    Rule{"samplers", kString | kArray},
    Rule{"dry_sequence_breakers", kArray},
    Rule{"response_fields", kArray},
    Rule{"preserved_tokens", kArray},
    Rule{"grammar_triggers", kArray},
    Rule{"logit_bias", kArray | kObject},
    Rule{"lora", kArray},
    Rule{"grammar", kString},
    Rule{"json_schema", kObject},
    Rule{"response_format", kObject},
    Rule{"chat_template_kwargs", kObject},
    Rule{"reasoning_format", kString},
    Rule{"reasoning_effort", kString},
    Rule{"tools", kArray},
    Rule{"tool_choice", kString | kObject},
    Rule{"continue_final_message", kBool | kString},
    Rule{"input_extra", kArray},
    Rule{"cache_salt", kString},
    Rule{"prompt_cache_key", kString},
};

std::string KindNames(unsigned kinds) {
  constexpr std::array<std::pair<unsigned, const char*>, 6> kNames{{{kBool, "a boolean"},
                                                                    {kInt, "an integer"},
                                                                    {kNumber, "a number"},
                                                                    {kString, "a string"},
                                                                    {kArray, "an array"},
                                                                    {kObject, "an object"}}};
  std::string names;
  for (const auto& [kind, name] : kNames) {
    if ((kinds & kind) == 0) continue;
    if (!names.empty()) names += " or ";
    names += name;
  }
  return names;
}

bool IsIntegral(const Json& value) {
  if (!value.is_number()) return false;
  const double number = value.get<double>();
  return std::isfinite(number) && number == std::floor(number);
}

bool Matches(const Json& value, unsigned kinds) {
  return ((kinds & kBool) != 0 && value.is_boolean()) ||
         ((kinds & kInt) != 0 && IsIntegral(value)) ||
         ((kinds & kNumber) != 0 && value.is_number()) ||
         ((kinds & kString) != 0 && value.is_string()) ||
         ((kinds & kArray) != 0 && value.is_array()) ||
         ((kinds & kObject) != 0 && value.is_object());
}

ApiStatus CheckRule(const Json& body, const Rule& rule) {
  if (!Has(body, rule.name)) return {};
  const Json& value = body.at(rule.name);
  if (!Matches(value, rule.kinds)) {
    return BadRequest(fmt::format("'{}' must be {}", rule.name, KindNames(rule.kinds)));
  }
  if (value.is_number()) {
    const double number = value.get<double>();
    if (!(number >= rule.least && number <= rule.most)) {
      return BadRequest(
          fmt::format("'{}' must be between {} and {}", rule.name, rule.least, rule.most));
    }
  }
  return {};
}

ApiStatus CheckStringArray(const Json& body, const char* name, std::size_t most) {
  if (!Has(body, name) || !body.at(name).is_array()) return {};
  const Json& array = body.at(name);
  if (array.size() > most) {
    return BadRequest(fmt::format("'{}' may have at most {} elements", name, most));
  }
  for (const Json& element : array) {
    if (!element.is_string()) {
      return BadRequest(fmt::format("the elements of '{}' must be strings", name));
    }
    if (element.get<std::string>().size() > kMaxWord) {
      return BadRequest(
          fmt::format("the elements of '{}' may have at most {} bytes", name, kMaxWord));
    }
  }
  return {};
}

bool IsBias(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  return value.is_number() && std::isfinite(value.get<float>());
}

ApiStatus CheckBiasToken(const Json& token, std::int64_t vocab) {
  if (token.is_string() && token.get<std::string>().size() <= kMaxWord) return {};
  if (!IsIntegral(token)) return BadRequest("tokens of 'logit_bias' must be token ids or strings");
  const double id = token.get<double>();
  if (id < 0 || id >= static_cast<double>(vocab)) {
    return BadRequest(fmt::format(
        "'logit_bias' names token {:.0f}; this model's tokens are 0 to {}", id, vocab - 1));
  }
  return {};
}

ApiStatus CheckLogitBias(const Json& body, std::int64_t vocab) {
  if (!Has(body, "logit_bias")) return {};
  const Json& bias = body.at("logit_bias");
  constexpr const char* kValue =
      "biases of 'logit_bias' must be finite numbers, or false to ban the token";
  if (bias.is_object()) {
    for (const auto& [key, value] : bias.items()) {
      if (!IsBias(value)) return BadRequest(kValue);
      if (key.size() > kMaxWord) return BadRequest("'logit_bias' has a key that is too long");
      const bool digits = !key.empty() && key.find_first_not_of("0123456789") == std::string::npos;
      if (digits && (key.size() > 9 || std::stoll(key) >= vocab)) {
        return BadRequest(
            fmt::format("'logit_bias' names token {}; this model's tokens are 0 to {}",
                        key.substr(0, 20), vocab - 1));
      }
    }
    return {};
  }
  for (const Json& pair : bias) {
    if (!pair.is_array() || pair.size() != 2) {
      return BadRequest("'logit_bias' must be an object, or an array of [token, bias] pairs");
    }
    API_RETURN_IF_ERROR(CheckBiasToken(pair.at(std::size_t{0}), vocab));
    if (!IsBias(pair.at(std::size_t{1}))) return BadRequest(kValue);
  }
  return {};
}

ApiStatus CheckLora(const Json& body) {
  if (!Has(body, "lora")) return {};
  for (const Json& entry : body.at("lora")) {
    const bool ok = entry.is_object() && Has(entry, "id") && IsIntegral(entry.at("id")) &&
                    Has(entry, "scale") && entry.at("scale").is_number() &&
                    std::isfinite(entry.at("scale").get<float>());
    if (!ok)
      return BadRequest(
          "'lora' must be an array of objects with an integer 'id' and a number 'scale'");
  }
  return {};
}

// Only plain words and token ids: patterns would run std::regex over the whole answer.
ApiStatus CheckTriggers(const Json& body) {
  if (!Has(body, "grammar_triggers")) return {};
  for (const Json& trigger : body.at("grammar_triggers")) {
    const bool shaped = trigger.is_object() && Has(trigger, "type") &&
                        IsIntegral(trigger.at("type")) && Has(trigger, "value") &&
                        trigger.at("value").is_string();
    const double type = shaped ? trigger.at("type").get<double>() : -1;
    const bool word = shaped && StringOr(trigger, "value").size() <= kMaxWord;
    if (!word || (type != 0 && type != 1)) {
      return BadRequest(
          "'grammar_triggers' takes objects with type 0 (token) or 1 (word) and a string value");
    }
    if (type == 0 && !(Has(trigger, "token") && IsIntegral(trigger.at("token")))) {
      return BadRequest("a grammar trigger of type 0 needs an integer 'token'");
    }
  }
  return {};
}

ApiStatus CheckGrammar(const Json& body) {
  constexpr std::size_t kMaxGrammar = std::size_t{1} << 20U;
  constexpr std::size_t kMaxGroups = 200;
  const std::string grammar = StringOr(body, "grammar");
  if (grammar.size() > kMaxGrammar) {
    return BadRequest(fmt::format("'grammar' may have at most {} bytes", kMaxGrammar));
  }
  if (BracketDepth(grammar, '(', ')') > kMaxGroups) {
    return BadRequest(fmt::format("'grammar' nests groups deeper than {} levels", kMaxGroups));
  }
  if (!Has(body, "json_schema")) return {};
  if (!grammar.empty()) return BadRequest("'json_schema' and 'grammar' cannot be used together");
  return CheckSchema(body.at("json_schema"), "json_schema");
}

ApiStatus CheckResponseFormat(const Json& body) {
  if (!Has(body, "response_format")) return {};
  const Json& format = body.at("response_format");
  const std::string type = StringOr(format, "type");
  if (type == "json_schema") {
    if (!Has(format, "json_schema") || !format.at("json_schema").is_object() ||
        !Has(format.at("json_schema"), "schema")) {
      return BadRequest("'response_format' of type json_schema needs 'json_schema.schema'");
    }
    const Json& schema = format.at("json_schema").at("schema");
    if (!schema.is_object())
      return BadRequest("'response_format.json_schema.schema' must be an object");
    return CheckOutputSchema(schema);
  }
  if (type == "json_object") {
    return Has(format, "schema") ? CheckOutputSchema(format.at("schema")) : ApiStatus{};
  }
  if (type != "text") {
    return BadRequest(
        "'response_format.type' must be \"text\", \"json_object\" or \"json_schema\"");
  }
  return {};
}

void Clamp(Json& body, const char* key, std::int64_t context) {
  if (!Has(body, key) || !body.at(key).is_number()) return;
  const double value = body.at(key).get<double>();
  if (value < 0 || value > static_cast<double>(context)) body[key] = context;
}

}  // namespace

ApiStatus CheckText(const std::string& text, const char* where) {
  const std::size_t stretch = text.size() > kMaxStretch ? LongestStretch(text) : 0;
  if (stretch <= kMaxStretch) return {};
  return BadRequest(fmt::format(
      "'{}' holds a stretch of {} bytes without (or of nothing but) white space; the limit is {}",
      where, stretch, kMaxStretch));
}

bool Has(const Json& body, const char* key) {
  return body.is_object() && body.contains(key) && !body.at(key).is_null();
}

std::string StringOr(const Json& body, const char* key) {
  return Has(body, key) && body.at(key).is_string() ? body.at(key).get<std::string>()
                                                    : std::string();
}

bool BoolOr(const Json& body, const char* key, bool fallback) {
  return Has(body, key) && body.at(key).is_boolean() ? body.at(key).get<bool>() : fallback;
}

ApiResult<Json> ParseBody(const std::string& body) {
  if (body.find_first_not_of(" \t\r\n") == std::string::npos) {
    return BadRequest("the request body is empty; a JSON object is expected");
  }
  API_RETURN_IF_ERROR(ScanJson(body));
  return Guarded([&]() -> ApiResult<Json> {
    Json parsed = Json::parse(body);
    if (!parsed.is_object()) return BadRequest("the request body must be a JSON object");
    return parsed;
  });
}

ApiStatus CheckFields(const Json& body, const FieldLimits& limits) {
  for (const Rule& rule : kRules) API_RETURN_IF_ERROR(CheckRule(body, rule));
  const Rule choices{"n", kInt, 1, static_cast<double>(limits.max_choices)};
  API_RETURN_IF_ERROR(CheckRule(body, choices));
  API_RETURN_IF_ERROR(CheckRule(body, Rule{"n_cmpl", choices.kinds, choices.least, choices.most}));
  if (Has(body, "stream_options")) {
    API_RETURN_IF_ERROR(CheckRule(body.at("stream_options"), Rule{"include_usage", kBool}));
  }
  for (const char* name : {"stop", "samplers", "dry_sequence_breakers", "response_fields"}) {
    API_RETURN_IF_ERROR(CheckStringArray(body, name, 256));
  }
  API_RETURN_IF_ERROR(CheckStringArray(body, "preserved_tokens", 4096));
  if (StringOr(body, "stop").size() > kMaxWord) {
    return BadRequest(fmt::format("'stop' may have at most {} bytes", kMaxWord));
  }
  constexpr std::size_t kMaxSalt = 1024;
  if (StringOr(body, "cache_salt").size() > kMaxSalt) {
    return BadRequest(fmt::format("'cache_salt' may have at most {} bytes", kMaxSalt));
  }
  API_RETURN_IF_ERROR(CheckLogitBias(body, limits.vocab));
  API_RETURN_IF_ERROR(CheckLora(body));
  API_RETURN_IF_ERROR(CheckTriggers(body));
  API_RETURN_IF_ERROR(CheckGrammar(body));
  return CheckResponseFormat(body);
}

void NormalizeNumbers(Json& body, const FieldLimits& limits) {
  Clamp(body, "repeat_last_n", limits.context);
  Clamp(body, "dry_penalty_last_n", limits.context);
  if (Has(body, "top_k") && body.at("top_k").get<double>() < 0) body["top_k"] = 0;
  if (!Has(body, "seed")) return;
  const double seed = body.at("seed").get<double>();
  constexpr double kSeeds = 4294967296.0;
  if (seed == -1) {
    body["seed"] = std::uint32_t{0xFFFFFFFFU};  // llama.cpp's word for "random"
  } else if (seed < 0 || seed >= kSeeds) {
    // OpenAI's seeds have 64 bits; fold them rather than lose the upper half. (Floats lose bits
    // anyway.)
    std::uint64_t wide = 0;
    if (!body.at("seed").is_number_integer()) {
      wide = static_cast<std::uint64_t>(std::fmod(std::abs(seed), kSeeds));
    } else if (seed < 0) {
      wide = static_cast<std::uint64_t>(body.at("seed").get<long long>());
    } else {
      wide = body.at("seed").get<unsigned long long>();
    }
    body["seed"] = static_cast<std::uint32_t>((wide ^ (wide >> 32U)) & 0x7FFFFFFFU);
  }
}

ApiStatus RefuseInternalFields(const Json& body) {
  for (const char* name :
       {"chat_parser", "chat_format", "generation_prompt", "message_delimiters",
        "message_boundaries", "grammar_type", "parse_tool_calls", "reasoning_budget_start_tag",
        "reasoning_budget_end_tag", "reasoning_budget_end_tags"}) {
    if (Has(body, name)) {
      return BadRequest(
          fmt::format("'{}' is set by the server and cannot be given in a request", name));
    }
  }
  return {};
}

ApiStatus RefuseInexact(const Json& body) {
  if (Has(body, "n_cache_reuse") && body.at("n_cache_reuse").is_number() &&
      body.at("n_cache_reuse").get<double>() > 0) {
    return BadRequest(
        "'n_cache_reuse' moves cached text to other positions, which changes answers; this server "
        "reuses "
        "exact prefixes only (leave the field out)");
  }
  for (const char* name : {"context_shift", "ctx_shift"}) {
    if (BoolOr(body, name, false)) {
      return BadRequest(fmt::format(
          "'{}' is not exact and not supported: answers end at the context size", name));
    }
  }
  if (BoolOr(body, "backend_sampling", false)) {
    return BadRequest("'backend_sampling' is not supported: cached logits are sampled on the host");
  }
  return {};
}

}  // namespace skippy::api
