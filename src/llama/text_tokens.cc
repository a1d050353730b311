#include "llama/text_tokens.h"

#include <fmt/format.h>
#include <llama.h>

#include <exception>

namespace skippy::llama {

Result<std::vector<Token>> TokensOfText(const Model& model, std::string_view text) try {
  std::vector<Token> tokens(text.size() + 8);
  const std::int32_t count = llama_tokenize(
      model.vocab(), text.data(), static_cast<std::int32_t>(text.size()), tokens.data(),
      static_cast<std::int32_t>(tokens.size()), /*add_special=*/false, /*parse_special=*/false);
  if (count < 0)
    return Err(ErrorCode::kInternal,
               fmt::format("llama.cpp makes {} tokens of {} bytes of text", -count, text.size()));
  tokens.resize(static_cast<std::size_t>(count));
  return tokens;
} catch (const std::exception& error) {
  return Err(ErrorCode::kInternal, fmt::format("tokenising: {}", error.what()));
}

std::size_t VocabularySize(const Model& model) {
  return static_cast<std::size_t>(llama_vocab_n_tokens(model.vocab()));
}

}  // namespace skippy::llama
