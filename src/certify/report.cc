#include "certify/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

namespace skippy::certify {
namespace {

constexpr Exactness kSettings[] = {Exactness::kBit, Exactness::kToken};

std::string_view Word(Exactness exactness) { return PromiseName(PromiseOf(exactness)); }

std::string Figures(const Row& row) {
  std::string text;
  if (row.compared > 0 && row.verdict != Verdict::kBit) {
    text += fmt::format("difference {:.3g}, margin {:.3g}", row.largest_difference,
                        row.smallest_margin);
    if (row.first_difference) text += fmt::format(", first at {}", *row.first_difference);
  }
  return text;
}

std::string Remark(const Row& row) {
  std::string text = Figures(row);
  if (!row.reason.empty()) text += (text.empty() ? "" : "; ") + row.reason;
  return text;
}

std::string Served(const Row& row) {
  return row.prompt_tokens == 0 ? "" : fmt::format("{}/{}", row.cached_tokens, row.prompt_tokens);
}

bool TellAlone(const Row& row, bool every_row) {
  return every_row || row.verdict == Verdict::kFail || row.tie || row.reference;
}

struct Sums {
  std::size_t bit = 0, token = 0, fail = 0, none = 0;
  double difference = 0;
};

using GroupKey = std::tuple<std::string, std::string, std::string>;

// Groups in the order of their first rows.
std::vector<std::pair<GroupKey, Sums>> SumUp(const std::vector<Row>& rows) {
  std::vector<std::pair<GroupKey, Sums>> sums;
  for (const Row& row : rows) {
    const GroupKey key{row.variation, row.group, row.tier};
    auto it =
        std::find_if(sums.begin(), sums.end(), [&](const auto& one) { return one.first == key; });
    if (it == sums.end()) it = sums.insert(sums.end(), {key, {}});
    Sums& sum = it->second;
    switch (row.verdict) {
      case Verdict::kBit: ++sum.bit; break;
      case Verdict::kToken: ++sum.token; break;
      case Verdict::kFail: ++sum.fail; break;
      case Verdict::kNotApplicable: ++sum.none; break;
    }
    sum.difference = std::max(sum.difference, row.largest_difference);
  }
  return sums;
}

std::string Bytes(std::uint64_t bytes) {
  constexpr std::uint64_t kKib = 1024;
  if (bytes < 10 * kKib) return fmt::format("{} B", bytes);
  if (bytes < 10 * kKib * kKib) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / kKib);
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / kKib / kKib);
}

std::string Components(const Economics& costs) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (costs.kv_bytes_per_token > 0)
    add(fmt::format("KV {} a token", Bytes(costs.kv_bytes_per_token)));
  if (costs.expanded_bytes_per_token > 0)
    text += fmt::format(" ({} if kept expanded)", Bytes(costs.expanded_bytes_per_token));
  if (costs.window_bytes_per_token > 0) {
    add(fmt::format("window {} a token of the last {}", Bytes(costs.window_bytes_per_token),
                    costs.window_tokens));
  }
  if (costs.snapshot_bytes > 0) add(fmt::format("snapshot {}", Bytes(costs.snapshot_bytes)));
  add(fmt::format("logits {}", Bytes(costs.logits_bytes)));
  return text;
}

std::string BreakEven(const Economics& costs) {
  return costs.break_even_tokens
             ? fmt::format("restoring is faster from {} tokens on", *costs.break_even_tokens)
             : std::string("restoring was not faster than computing");
}

std::string Head(const Certificate& certificate, std::string_view bullet) {
  const Identity& identity = certificate.identity;
  std::string text;
  text += fmt::format("{}model {} ({}), identity {}\n", bullet, identity.model.ShortHex(),
                      identity.architecture, IdentityDigest(identity).ShortHex());
  text += fmt::format(
      "{}{} lane{} of {} cells, chunks of {}, {} thread{}, K {}, V {}, flash attention {}{}\n",
      bullet, identity.streams, identity.streams == 1 ? "" : "s", identity.context, identity.chunk,
      identity.threads, identity.threads == 1 ? "" : "s", identity.kv_type_k, identity.kv_type_v,
      identity.flash_attention ? "on" : "off", identity.swa_full ? ", swa_full" : "");
  text += fmt::format("{}{} test, policy {}{}\n", bullet, ModeName(certificate.mode),
                      PayloadPolicyName(certificate.policy),
                      certificate.policy_reason.empty() ? "" : ": " + certificate.policy_reason);
  return text;
}

}  // namespace

std::string VerdictText(const Certificate& certificate, Exactness exactness) {
  const auto& verdict = certificate.verdict(exactness);
  if (!verdict) return "not tried";
  const std::size_t ties = certificate.Ties(exactness);
  std::string text(VerdictName(*verdict));
  if (ties > 0) text += fmt::format(" ({} tie{})", ties, ties == 1 ? "" : "s");
  return text;
}

std::string TextReport(const Certificate& certificate, bool every_row) {
  std::string text = Head(certificate, "  ");
  text += fmt::format("\n{:<19} {:<26} {:<16} {:>4} {:>5} {:>4} {:>4}  {}\n", "setting", "evidence",
                      "tier", "bit", "token", "fail", "n/a", "largest difference");
  for (const auto& [key, sum] : SumUp(certificate.rows)) {
    const auto& [variation, group, tier] = key;
    text +=
        fmt::format("{:<19} {:<26} {:<16} {:>4} {:>5} {:>4} {:>4}  {}\n",
                    variation.empty() ? "-" : variation, group, tier, sum.bit, sum.token, sum.fail,
                    sum.none, sum.difference > 0 ? fmt::format("{:.3g}", sum.difference) : "0");
  }
  std::string alone;
  for (const Row& row : certificate.rows) {
    if (!TellAlone(row, every_row)) continue;
    alone += fmt::format("{:<15} {}{}{}\n", VerdictName(row.verdict), RowName(row),
                         Served(row).empty() ? "" : " [" + Served(row) + " cached]",
                         Remark(row).empty() ? "" : ": " + Remark(row));
  }
  if (!alone.empty()) text += "\n" + alone;
  // The same reason once.
  std::map<std::string, std::size_t> reasons;
  for (const Row& row : certificate.rows) {
    if (row.verdict == Verdict::kNotApplicable && !TellAlone(row, every_row))
      ++reasons[(row.variation.empty() ? "" : row.variation + ": ") + row.reason];
  }
  if (!reasons.empty()) text += "\nnot applicable\n";
  for (const auto& [reason, count] : reasons) text += fmt::format("  {:>2} x {}\n", count, reason);
  if (certificate.economics) {
    const Economics& costs = *certificate.economics;
    text += fmt::format("\nbytes: {}\n", Components(costs));
    text += fmt::format("{:>8} {:>10} {:>12} {:>14} {:>16}\n", "tokens", "bytes", "restore ms",
                        "recompute ms", "GB/s (memcpy)");
    for (const CostPoint& point : costs.points) {
      text += fmt::format(
          "{:>8} {:>10} {:>12.2f} {:>14.1f} {:>16}\n", point.tokens, Bytes(point.bytes),
          point.restore_ms, point.recompute_ms,
          point.measured ? fmt::format("{:.1f} ({:.1f})", point.restore_gb_s, point.memcpy_gb_s)
                         : "derived");
    }
    text += BreakEven(costs) + "\n";
  }
  text += "\n";
  for (const Exactness exactness : kSettings) {
    text +=
        fmt::format("exactness {:<6} {}\n", Word(exactness), VerdictText(certificate, exactness));
    if (const std::string failure = certificate.FirstFailure(exactness);
        certificate.verdict(exactness) && !failure.empty())
      text += fmt::format("  {}\n", failure);
  }
  return text;
}

std::string MarkdownReport(const Certificate& certificate) {
  std::string text = "# Certificate\n\n" + Head(certificate, "- ");
  text += fmt::format("- tried on {} by skippy {}\n", certificate.date, certificate.tool);
  for (const Exactness exactness : kSettings) {
    text +=
        fmt::format("- exactness {}: **{}**", Word(exactness), VerdictText(certificate, exactness));
    if (const std::string failure = certificate.FirstFailure(exactness);
        certificate.verdict(exactness) && !failure.empty())
      text += fmt::format(" ({})", failure);
    text += "\n";
  }
  text +=
      "\n| setting | evidence | tier | scenario | for | verdict | cached | remark |\n"
      "|---|---|---|---|---|---|---|---|\n";
  const auto cell = [](std::string value) {
    std::replace(value.begin(), value.end(), '|', '/');
    std::replace(value.begin(), value.end(), '\n', ' ');
    return value.empty() ? std::string("-") : value;
  };
  for (const Row& row : certificate.rows) {
    text += fmt::format("| {} | {} | {} | {} | {} | {}{} | {} | {} |\n", cell(row.variation),
                        cell(row.group), cell(row.tier), cell(row.scenario),
                        PromiseName(row.promise), VerdictName(row.verdict),
                        row.reference ? " (reference)" : "", cell(Served(row)), cell(Remark(row)));
  }
  if (!certificate.economics) return text;
  const Economics& costs = *certificate.economics;
  text += fmt::format("\nBytes: {}; {}.\n\n", Components(costs), BreakEven(costs));
  text += "| tokens | bytes | restore ms | recompute ms | GB/s | memcpy GB/s |\n";
  text += "|---|---|---|---|---|---|\n";
  for (const CostPoint& point : costs.points) {
    text += fmt::format("| {} | {} | {:.2f} | {:.1f} | {} |\n", point.tokens, Bytes(point.bytes),
                        point.restore_ms, point.recompute_ms,
                        point.measured
                            ? fmt::format("{:.1f} | {:.1f}", point.restore_gb_s, point.memcpy_gb_s)
                            : "derived | derived");
  }
  return text;
}

}  // namespace skippy::certify
