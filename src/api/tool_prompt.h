// Tools for models whose chat template knows none: the functions are told to the model in the
// system message, a call is "<tool_call>" + JSON + "</tool_call>", and a grammar holds the model to
// it.
//
// The wording and the rendering of calls depend on nothing but the request, and a call that was
// generated is rendered back byte for byte in the next turn, so conversations keep their cached
// prefix.
#pragma once

#include <string>

#include "api/request_fields.h"

namespace skippy::api {

// Rewrites `messages`: the tools go into the system message (one is added if there is none),
// earlier tool calls and tool results become plain text.
void DescribeTools(Json& messages, const Json& tools);

struct ToolGrammar {
  std::string grammar;
  std::string parser;   // serialized parser of answers, for llama.cpp's chat parsing
  std::string trigger;  // the text that begins a call
};

// `tools`: the functions that may be called. `required`: the answer is a call and nothing else;
// otherwise the grammar sets in when the model begins a call. May throw what llama.cpp's builders
// throw.
ToolGrammar BuildToolGrammar(const Json& tools, const std::string& generation_prompt,
                             bool required);

}  // namespace skippy::api
