#include "rpc/status.h"

#include <fmt/format.h>

#include <optional>

namespace skippy::rpc {
namespace {

constexpr const char* kCodeKey = "skippy-error";
// A status travels as a header, of which all together have 8 KiB; bytes beyond ASCII take three.
constexpr std::size_t kMaxMessage = 2000;

grpc::StatusCode CodeOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return grpc::StatusCode::INVALID_ARGUMENT;
    case ErrorCode::kNotFound: return grpc::StatusCode::NOT_FOUND;
    case ErrorCode::kResourceExhausted: return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case ErrorCode::kCorruption: return grpc::StatusCode::DATA_LOSS;
    case ErrorCode::kUnsupported: return grpc::StatusCode::FAILED_PRECONDITION;
    case ErrorCode::kUnavailable: return grpc::StatusCode::UNAVAILABLE;
    case ErrorCode::kCancelled: return grpc::StatusCode::CANCELLED;
    case ErrorCode::kInternal: return grpc::StatusCode::INTERNAL;
  }
  return grpc::StatusCode::UNKNOWN;
}

std::optional<ErrorCode> OurCode(const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto at = metadata.find(kCodeKey);
  if (at == metadata.end()) return std::nullopt;
  const std::string_view name(at->second.data(), at->second.size());
  for (int i = 0;; ++i) {
    const auto code = static_cast<ErrorCode>(i);
    if (ErrorCodeName(code) == std::string_view("unknown")) return std::nullopt;
    if (ErrorCodeName(code) == name) return code;
  }
}

std::string Shortened(const std::string& message) {
  if (message.size() <= kMaxMessage) return message;
  std::size_t end = kMaxMessage;
  // Not within a character: what reads the message may insist on UTF-8.
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0U) == 0x80U) --end;
  return message.substr(0, end) + "...";
}

// What a connection that could not be made means, as far as it can be told. `said`: gRPC's words.
std::string Advice(std::string_view said, const CallFacts& call) {
  const auto has = [said](std::string_view words) { return said.find(words) != said.npos; };
  if (!has("failed to connect")) return "";
  // The other side speaks TLS, and ends the connection when it hears something else.
  if (!call.tls && (has("Socket closed") || has("reset by peer")))
    return fmt::format(". Is TLS spoken there? Then give {}", kTlsCaFlag);
  if (call.tls && has("wrong version number"))
    return fmt::format(". No TLS is spoken there: start the stage with {}, or leave out {}",
                       kCertificateFlag, kTlsCaFlag);
  if (call.tls && has("certificate"))
    return fmt::format(
        ". Its certificate must be signed by one in {}, and name the host as it is "
        "written here",
        kTlsCaFlag);
  return "";
}

}  // namespace

grpc::Status ToStatus(grpc::ServerContext& context, const Error& error) {
  context.AddTrailingMetadata(kCodeKey, ErrorCodeName(error.code));
  return {CodeOf(error.code), Shortened(error.message)};
}

grpc::Status WrongSecret() {
  return {grpc::StatusCode::UNAUTHENTICATED, "the secret is missing or wrong"};
}

Error FromStatus(const grpc::ClientContext& context, const grpc::Status& status,
                 const CallFacts& call) {
  const std::string& said = status.error_message();
  if (const std::optional<ErrorCode> ours = OurCode(context))
    return {*ours, fmt::format("{}: {}", call.address, said)};
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return {ErrorCode::kUnavailable,
              fmt::format("{}: no answer to {} within {} s", call.address, call.name,
                          std::chrono::duration<double>(call.timeout).count())};
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:  // by the server, or by a Hangup
      return {ErrorCode::kUnavailable,
              fmt::format("{} is away: {}{}", call.address, said, Advice(said, call))};
    case grpc::StatusCode::UNAUTHENTICATED:
      return {
          ErrorCode::kInvalidArgument,
          fmt::format("{}: wrong secret{}: {} must have what the stage was given with {}",
                      call.address, call.secret ? "" : ", none", kSecretFlag, kServerSecretFlag)};
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return {ErrorCode::kResourceExhausted,
              fmt::format("{}: {} refused: {}", call.address, call.name, said)};
    case grpc::StatusCode::UNIMPLEMENTED:
      return {ErrorCode::kUnsupported,
              fmt::format("{} does not know {}: no stage, or of another version ({})", call.address,
                          call.name, said)};
    default:
      return {ErrorCode::kInternal,
              fmt::format("{}: {} failed: {} (gRPC status {})", call.address, call.name, said,
                          static_cast<int>(status.error_code()))};
  }
}

}  // namespace skippy::rpc
