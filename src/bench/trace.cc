#include "bench/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "skippy/random.h"

namespace skippy::bench {
namespace {

using nlohmann::json;

constexpr std::uint32_t kMostTokens = 1U << 24U;

std::optional<std::uint64_t> Number(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<std::uint64_t>();
}

std::uint32_t BlocksOf(std::uint64_t tokens, std::uint32_t block_tokens) {
  return static_cast<std::uint32_t>((tokens + block_tokens - 1) / block_tokens);
}

// The request, or what is wrong with the line.
tl::expected<TraceRequest, std::string> Parse(const std::string& line, std::uint32_t block_tokens) {
  const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return tl::unexpected(std::string("not a JSON object"));
  TraceRequest request;
  for (const char* key : {"timestamp", "input_length", "output_length"}) {
    const auto number = object.contains(key) ? Number(object[key]) : std::nullopt;
    if (!number) return tl::unexpected(fmt::format("'{}' must be a whole number", key));
    if (std::string(key) == "timestamp") {
      request.timestamp_ms = *number;
      continue;
    }
    if (*number > kMostTokens) return tl::unexpected(fmt::format("'{}': {} tokens", key, *number));
    (std::string(key) == "input_length" ? request.input_tokens : request.output_tokens) =
        static_cast<std::uint32_t>(*number);
  }
  if (request.input_tokens == 0) return tl::unexpected(std::string("'input_length' is 0"));
  if (!object.contains("hash_ids") || !object["hash_ids"].is_array())
    return tl::unexpected(std::string("'hash_ids' must be a list of whole numbers"));
  for (const json& id : object["hash_ids"]) {
    const auto number = Number(id);
    if (!number) return tl::unexpected(std::string("'hash_ids' must be a list of whole numbers"));
    request.blocks.push_back(*number);
  }
  const std::uint32_t needed = BlocksOf(request.input_tokens, block_tokens);
  if (request.blocks.size() != needed)
    return tl::unexpected(
        fmt::format("{} tokens are {} blocks of {}, but there are {} hash_ids; see --block-tokens",
                    request.input_tokens, needed, block_tokens, request.blocks.size()));
  return request;
}

}  // namespace

std::uint64_t Trace::input_tokens() const {
  std::uint64_t sum = 0;
  for (const TraceRequest& request : requests) sum += request.input_tokens;
  return sum;
}

std::uint32_t Trace::longest() const {
  std::uint32_t most = 0;
  for (const TraceRequest& request : requests) most = std::max(most, request.input_tokens);
  return most;
}

Result<Trace> ReadTrace(const std::string& path, std::uint32_t block_tokens, std::size_t limit) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Err(ErrorCode::kNotFound, fmt::format("cannot read the trace '{}'", path));
  Trace trace;
  trace.block_tokens = block_tokens;
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto request = Parse(line, block_tokens);
    if (!request)
      return Err(ErrorCode::kInvalidArgument,
                 fmt::format("{}:{}: {}", path, number, request.error()));
    trace.requests.push_back(std::move(*request));
    if (limit > 0 && trace.requests.size() == limit) break;
  }
  if (trace.requests.empty())
    return Err(ErrorCode::kInvalidArgument, fmt::format("'{}' holds no request", path));
  return trace;
}

Result<Trace> Scaled(const Trace& trace, std::uint32_t divisor) {
  if (divisor == 0 || trace.block_tokens % divisor != 0)
    return Err(
        ErrorCode::kInvalidArgument,
        fmt::format("blocks of {} tokens cannot be divided by {}", trace.block_tokens, divisor));
  Trace scaled = trace;
  scaled.block_tokens /= divisor;
  for (TraceRequest& request : scaled.requests) {
    const auto whole = static_cast<std::uint32_t>(request.blocks.size() - 1);
    const std::uint32_t rest = request.input_tokens - whole * trace.block_tokens;
    request.input_tokens = whole * scaled.block_tokens + BlocksOf(rest, divisor);
    request.output_tokens = BlocksOf(request.output_tokens, divisor);
  }
  return scaled;
}

std::vector<Token> PromptOf(const Trace& trace, const TraceRequest& request,
                            std::uint32_t vocabulary) {
  std::vector<Token> tokens;
  tokens.reserve(request.input_tokens);
  for (const std::uint64_t block : request.blocks) {
    const std::uint64_t seed = SplitMix64(block);
    for (std::uint32_t i = 0; i < trace.block_tokens; ++i) {
      if (tokens.size() == request.input_tokens) break;
      tokens.push_back(static_cast<Token>(SplitMix64(seed + i) % vocabulary));
    }
  }
  return tokens;
}

}  // namespace skippy::bench
