// Where the next request of a conversation, or another one with the same beginning, may part from a
// rendered prompt: where a message's content begins (all before it, headers included, is what
// requests with another content share), and where the last content ends (templates put other text
// behind it once the answer is history). Recurrent models keep a snapshot there.
//
// A guess that costs nothing but a snapshot in a useless place when it is wrong; the same messages
// and prompt give the same boundaries. Template and family do not matter: contents are looked for
// in the text.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/request_fields.h"
#include "skippy/types.h"

namespace skippy::api {

// Ascending byte offsets in `prompt`. `messages`: of a chat request, checked. Contents that the
// template changed are left out. Cost: O(prompt) a message that is found, and for a bounded number
// of those that are not.
std::vector<std::size_t> MessageBoundaries(const Json& messages, std::string_view prompt);

// The tokens of the prompt in which the offsets lie, ascending, without duplicates, and without
// those so near the beginning that a state there saves nothing. `pieces`: the text of each token.
// Empty when the pieces are not the prompt's text (tokenizers that normalise) but for what the
// tokenizer puts around it.
std::vector<Pos> TokenBoundaries(std::span<const std::string> pieces, std::string_view prompt,
                                 std::span<const std::size_t> offsets);

}  // namespace skippy::api
