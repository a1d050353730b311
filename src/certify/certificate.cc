#include "certify/certificate.h"

#include <fmt/format.h>

#include <algorithm>

namespace skippy::certify {
namespace {

std::string Text(const Digest& digest) { return digest.Hex(); }
std::string Text(const std::string& text) { return text.empty() ? "(none)" : text; }
std::string Text(bool flag) { return flag ? "on" : "off"; }
std::string Text(std::uint32_t number) { return fmt::format("{}", number); }
std::string Text(const std::vector<AdapterIdentity>& adapters) {
  std::string text;
  for (const AdapterIdentity& adapter : adapters) {
    text +=
        fmt::format("{}{}x{}", text.empty() ? "" : ", ", adapter.content.ShortHex(), adapter.scale);
  }
  return Text(text);
}

class Differ {
 public:
  template <class T>
  void Field(const char* name, const T& certified, const T& present) {
    if (!first_.empty() || certified == present) return;
    first_ = fmt::format("{} is {} here and {} in the certificate", name, Text(present),
                         Text(certified));
  }
  const std::string& first() const { return first_; }

 private:
  std::string first_;
};

}  // namespace

std::string_view ModeName(Mode mode) { return mode == Mode::kQuick ? "quick" : "full"; }

Digest IdentityDigest(const Identity& identity) { return Blake3(EncodeIdentity(identity)); }

std::string Certificate::FirstFailure(Exactness exactness) const {
  if (policy == PayloadPolicy::kOff)
    return fmt::format("this model's state is not cached: {}", policy_reason);
  for (const Row& row : rows) {
    const bool speaks = row.promise == Promise::kBoth || row.promise == PromiseOf(exactness);
    if (!speaks || row.reference || row.verdict == Verdict::kNotApplicable ||
        Keeps(row.verdict, exactness))
      continue;
    std::string sentence = fmt::format("{}: {}", RowName(row), row.reason);
    if (row.first_difference && row.compared > 0)
      sentence += fmt::format(" first at position {}", *row.first_difference);
    return sentence;
  }
  return verdict(exactness) && !Keeps(*verdict(exactness), exactness) ? "nothing could be tried"
                                                                      : "";
}

std::size_t Certificate::Ties(Exactness exactness) const {
  return static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), [&](const Row& row) {
    return row.tie && !row.reference &&
           (row.promise == Promise::kBoth || row.promise == PromiseOf(exactness));
  }));
}

Status Validate(const Certificate& certificate, const Identity& identity) {
  const Identity& had = certificate.identity;
  Differ differ;
  differ.Field("the model's digest", had.model, identity.model);
  differ.Field("the tokenizer's digest", had.tokenizer, identity.tokenizer);
  differ.Field("the architecture", had.architecture, identity.architecture);
  differ.Field("the runtime build", had.runtime_build, identity.runtime_build);
  differ.Field("the device", had.device, identity.device);
  differ.Field("the type of K", had.kv_type_k, identity.kv_type_k);
  differ.Field("the type of V", had.kv_type_v, identity.kv_type_v);
  differ.Field("flash attention", had.flash_attention, identity.flash_attention);
  differ.Field("the rope setting", had.rope, identity.rope);
  differ.Field("swa_full", had.swa_full, identity.swa_full);
  differ.Field("the number of lanes", had.streams, identity.streams);
  differ.Field("the context of a lane", had.context, identity.context);
  differ.Field("the chunk", had.chunk, identity.chunk);
  differ.Field("the number of threads", had.threads, identity.threads);
  differ.Field("the first layer", had.layer_begin, identity.layer_begin);
  differ.Field("the end of the layers", had.layer_end, identity.layer_end);
  differ.Field("the topology", had.topology, identity.topology);
  differ.Field("the state layout's version", had.state_version, identity.state_version);
  differ.Field("the list of adapters", had.adapters, identity.adapters);
  if (differ.first().empty() && had == identity) return {};
  return Err(ErrorCode::kInvalidArgument,
             fmt::format("the certificate is about another identity: {}",
                         differ.first().empty() ? "a field differs" : differ.first()));
}

}  // namespace skippy::certify
