// Tokens of plain text, without special tokens and without a leading one.
//
// Threads: any. Errors: kInternal with llama.cpp's words.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "llama/model.h"
#include "skippy/result.h"
#include "skippy/types.h"

namespace skippy::llama {

Result<std::vector<Token>> TokensOfText(const Model& model, std::string_view text);

// Number of token ids.
std::size_t VocabularySize(const Model& model);

}  // namespace skippy::llama
