// skippy cache status --url U: what a running server's cache holds and has done.
#include <cpp-httplib/httplib.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "api/request_fields.h"
#include "cli/commands.h"
#include "cli/flag_suggest.h"
#include "skippy/result.h"

namespace skippy::cli {
namespace {

using api::Json;

double Number(const Json& object, const char* key) {
  return api::Has(object, key) && object.at(key).is_number() ? object.at(key).get<double>() : 0;
}

void PrintCounts(const char* title, const Json& counts) {
  std::string line;
  for (const auto& [name, count] : counts.items()) {
    if (count.get<double>() == 0) continue;
    line += fmt::format("{}{} {:.0f}", line.empty() ? "" : ", ", name, count.get<double>());
  }
  std::printf("  %-10s%s\n", title, line.empty() ? "none" : line.c_str());
}

void PrintStatus(const Json& status) {
  const Json& host = status.at("tiers").at("host");
  const Json& prompt = status.at("prompt_tokens");
  constexpr double kMib = 1024.0 * 1024.0;
  const double total = Number(prompt, "total");
  const double cached = total - Number(prompt, "evaluated");
  const bool on = api::BoolOr(status, "enabled", false);
  std::printf("%s\n", api::StringOr(status, "model").c_str());
  std::printf("  %-10s%s%s\n", "cache", on ? api::StringOr(status, "policy").c_str() : "off: ",
              on ? "" : api::StringOr(status, "off_reason").c_str());
  std::printf("  %-10s%s\n", "reuse", api::StringOr(status, "reuse").c_str());
  std::printf(
      "  %-10s%.1f of %.1f MiB, %.0f entries, %.0f blocks, %.0f snapshots, %.0f decoded results\n",
      "host", Number(host, "physical_bytes") / kMib, Number(host, "max_bytes") / kMib,
      Number(host, "entries"), Number(host, "blocks"), Number(host, "snapshots"),
      Number(host, "decoded_results"));
  std::printf("  %-10s%.0f prompt tokens, %.0f cached (%.1f %%)\n", "tokens", total, cached,
              total > 0 ? 100 * cached / total : 0);
  PrintCounts("hits", status.at("requests_by_hit_kind"));
  PrintCounts("misses", status.at("misses_by_reason"));
}

// The server's answer, or why there is none.
Result<std::string> Fetch(const std::string& url, const std::string& key) {
  if (url.rfind("http://", 0) != 0) {
    return Err(ErrorCode::kInvalidArgument,
               fmt::format("--url: '{}' must begin with http://", url));
  }
  std::string origin = url;
  while (!origin.empty() && origin.back() == '/') origin.pop_back();
  httplib::Client client(origin);
  if (!client.is_valid())
    return Err(ErrorCode::kInvalidArgument, fmt::format("--url: '{}' is not a URL", url));
  client.set_connection_timeout(5);
  client.set_read_timeout(30);
  httplib::Headers headers;
  if (!key.empty()) headers.emplace("Authorization", "Bearer " + key);
  const auto answer = client.Get("/cache", headers);
  if (!answer) {
    return Err(ErrorCode::kUnavailable,
               fmt::format("no answer from {}: {}", url, httplib::to_string(answer.error())));
  }
  if (answer->status != 200) {
    return Err(ErrorCode::kUnavailable,
               fmt::format("{} answered with status {}{}", url, answer->status,
                           answer->status == 401 ? ": give --api-key" : ""));
  }
  return answer->body;
}

}  // namespace

int CacheCommand(std::vector<std::string> arguments) {
  CLI::App app("Looks at the prefix cache of a running server.", "skippy cache");
  CLI::App* status = app.add_subcommand("status", "what the cache holds and has done");
  std::string url = "http://127.0.0.1:8080";
  std::string key;
  bool json = false;
  status->add_option("--url", url, "the server, default http://127.0.0.1:8080");
  status->add_option("--api-key", key, "key, if the server asks for one");
  status->add_flag("--json", json, "the server's JSON as it is");
  app.require_subcommand(1);
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    std::printf("%s", app.help().c_str());
    return 0;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "skippy cache: %s\n", error.what());
    return 2;
  }
  const Result<std::string> answer = Fetch(url, key);
  if (!answer) {
    std::fprintf(stderr, "skippy cache: %s\n", answer.error().message.c_str());
    return 2;
  }
  const auto printed = api::Guarded([&]() -> api::ApiStatus {
    if (json) {
      std::printf("%s\n", answer->c_str());
    } else {
      PrintStatus(Json::parse(*answer));
    }
    return {};
  });
  if (!printed) {
    std::fprintf(stderr, "skippy cache: %s does not answer like skippy: %s\n", url.c_str(),
                 printed.error().message.c_str());
    return 2;
  }
  return 0;
}

}  // namespace skippy::cli
