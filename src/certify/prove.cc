#include "certify/prove.h"

#include <fmt/format.h>

#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "certify/certificate_store.h"
#include "certify/certify.h"
#include "certify/row.h"
#include "runtime/state_keeper.h"

namespace skippy::certify {
namespace {

// What the certificate says about the setting; nothing when it does not speak of it.
std::optional<Proof> Reading(const Certificate& certificate, Exactness exactness) {
  if (!certificate.verdict(exactness)) return std::nullopt;
  const std::string source = fmt::format(
      "by {} of {}", certificate.mode == Mode::kQuick ? "the self-test" : "the certificate",
      certificate.date.substr(0, 10));
  if (certificate.Certifies(exactness)) {
    return Proof{true,
                 fmt::format("{}-exact {}", VerdictName(*certificate.verdict(exactness)), source)};
  }
  return Proof{false, fmt::format("not {}-exact {}: {}", PromiseName(PromiseOf(exactness)), source,
                                  certificate.FirstFailure(exactness))};
}

// Ids of any meaning: what is tested is that state comes back, not what it says.
std::vector<Token> AnyText(std::uint32_t vocab, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Token> tokens(count);
  for (Token& token : tokens) token = static_cast<Token>(random() % vocab);
  return tokens;
}

// What earlier self-tests found about the other setting stays beside what this one found.
Certificate Joined(Certificate found, const Certificate& kept, Exactness exactness) {
  const Exactness other = exactness == Exactness::kBit ? Exactness::kToken : Exactness::kBit;
  if (kept.mode != Mode::kQuick || !kept.verdict(other)) return found;
  (other == Exactness::kBit ? found.bit : found.token) = kept.verdict(other);
  for (const Row& row : kept.rows)
    if (row.promise == PromiseOf(other)) found.rows.push_back(row);
  return found;
}

Result<Proof> Test(runtime::Runtime& runtime, const ProveOptions& options,
                   const CertificateStore& store, const Certificate* kept) {
  options.say(
      "skippy: no certificate for this model and these settings; testing for a few seconds "
      "(--no-self-test skips it)");
  QuickSettings settings;
  settings.exactness = {options.exactness};
  const std::uint32_t vocab = runtime.info().vocab;
  const auto text = [vocab](std::size_t count, std::uint64_t seed) {
    return AnyText(vocab, count, seed);
  };
  Result<Certificate> found = QuickSelfTest(runtime, text, settings);
  if (!found) return Proof{false, "the self-test could not run: " + found.error().message};
  if (kept != nullptr) *found = Joined(*std::move(found), *kept, options.exactness);
  const std::optional<Proof> proof = Reading(*found, options.exactness);
  // Parts of a runtime that keeps its state elsewhere may have been away: no verdict for ever.
  const bool lasting =
      (proof && proof->exact) || dynamic_cast<runtime::StateKeeper*>(&runtime) == nullptr;
  if (lasting) {
    if (const auto saved = store.Save(*found); !saved)
      options.say("skippy: the self-test's result could not be kept: " + saved.error().message);
  }
  return proof ? *proof : Proof{false, "the self-test came to no verdict"};
}

}  // namespace

Result<Proof> ProveExact(runtime::Runtime& runtime, const ProveOptions& options) {
  const Identity& identity = runtime.info().identity;
  if (!options.certificate_file.empty()) {
    SKIPPY_TRY(const Certificate given, ReadCertificateFile(options.certificate_file));
    SKIPPY_RETURN_IF_ERROR(Validate(given, identity));
    if (std::optional<Proof> proof = Reading(given, options.exactness)) return *std::move(proof);
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("{} says nothing about --exactness {}", options.certificate_file,
                           PromiseName(PromiseOf(options.exactness))));
  }
  const CertificateStore store(options.folder);
  const Result<Certificate> kept = store.Load(identity);
  if (kept) {
    if (std::optional<Proof> proof = Reading(*kept, options.exactness)) return *std::move(proof);
  } else if (kept.error().code != ErrorCode::kNotFound) {
    options.say("skippy: " + kept.error().message);
  }
  if (!options.run) return Proof{true, "untested (--no-self-test)"};
  return Test(runtime, options, store, kept ? &*kept : nullptr);
}

}  // namespace skippy::certify
